// Concern: accepting goes on whatever happens to single connections, and spreads them over the
// shards. Method: resets, exhausted descriptors, exhausted slots.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using server::ShardCount;

TEST_CASE("connections that are reset at once do not end accepting") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    for (int i = 0; i < 200; ++i) server.connect().abort();
    CHECK(server.is_healthy());
    CHECK(eventually([&] { return server->connections() == 0; }));
  }
}

// A low limit on descriptors, and all of them taken. The limit comes first and the server second,
// because the kernel looks at the limit when an accept is started.
class FewDescriptors {
 public:
  FewDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = 128;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FewDescriptors() {
    release();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  void take_all() {
    for (int copy = ::dup(0); copy >= 0; copy = ::dup(0)) copies_.push_back(copy);
  }
  void release() {
    for (const int copy : copies_) ::close(copy);
    copies_.clear();
  }

 private:
  rlimit before_{};
  std::vector<int> copies_;
};

TEST_CASE("accepting resumes after the descriptors had run out") {
  for (const auto io : kBackends) {
    FewDescriptors descriptors;
    auto config = local_config(io);
    config.limits.tick_ms = 10;
    config.limits.accept_backoff_ms = 10;
    TestServer server(config);
    REQUIRE(server.is_healthy());
    REQUIRE(eventually([&] { return server->connections() == 0; }));
    const auto address = *protocol::parse_address(server.address());
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(socket >= 0);
    descriptors.take_all();
    REQUIRE(::connect(socket, address.get(), address.size_bytes) == 0);
    CHECK(eventually([&] { return server->count(ShardCount::accept_errors) > 0; }));
    descriptors.release();
    ::close(socket);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("more connections than slots are turned away, and welcome again later") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.max_connections = 2;
    TestServer server(config);
    {
      RawClient first = server.greeted();
      RawClient second = server.greeted();
      RawClient third = server.connect();
      CHECK(third.wait_for_end());
      CHECK(server->count(ShardCount::refused_full) == 1);
    }
    CHECK(eventually([&] { return server->connections() == 0; }));
    CHECK(server.is_healthy());
  }
}

TEST_CASE("few connections are spread evenly") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 4));
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(server.greeted());
    for (std::size_t shard = 0; shard < 4; ++shard) CHECK(server->connections_of(shard) == 2);
  }
}

TEST_CASE("a second server on the same port is refused") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    auto config = local_config(io, 2);
    config.listen = {*protocol::parse_address(server.address())};
    const auto second = server::Server::start(config);
    REQUIRE_FALSE(second);
    CHECK(second.error().find("in use") != std::string::npos);
  }
}

TEST_CASE("a Unix socket's file that nobody listens on is replaced, a living one is not") {
  auto config = local_config();
  const std::string path = "/tmp/pail-accept-test." + std::to_string(::getpid()) + ".sock";
  config.listen = {*protocol::parse_address("unix:" + path)};
  const int stale = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(stale, config.listen[0].get(), config.listen[0].size_bytes) == 0);
  ::close(stale);
  {
    TestServer server(config);
    CHECK(server.is_healthy());
    CHECK_FALSE(server::Server::start(config));
    CHECK(server.is_healthy());
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

}  // namespace
}  // namespace pail::test
