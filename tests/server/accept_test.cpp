// Concern: accepting goes on whatever happens to single connections, and spreads them over the
// shards. Method: resets, exhausted descriptors, exhausted slots.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

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

// A socket that connects when all descriptors are taken.
class LatePeer {
 public:
  explicit LatePeer(const protocol::Address& address)
      : address_(address), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~LatePeer() { ::close(socket_); }
  LatePeer(const LatePeer&) = delete;
  LatePeer& operator=(const LatePeer&) = delete;
  [[nodiscard]] bool connect() const {
    return ::connect(socket_, address_.get(), address_.size_bytes) == 0;
  }
  // Closed by the server, whichever way.
  [[nodiscard]] bool is_turned_away() const {
    pollfd watched{socket_, POLLIN, 0};
    if (::poll(&watched, 1, 20'000) != 1) return false;
    char byte = 0;
    return ::read(socket_, &byte, 1) <= 0;
  }

 private:
  protocol::Address address_;
  int socket_;
};

TEST_CASE("without descriptors peers are turned away at once, and accepting resumes after") {
  for (const auto io : kBackends) {
    FewDescriptors descriptors;
    auto config = local_config(io);
    config.limits.tick_ms = 10;
    config.limits.accept_backoff_ms = 10;
    TestServer server(config);
    RawClient earlier = server.greeted();
    const auto address = *protocol::parse_address(server.address());
    const LatePeer peers[] = {LatePeer(address), LatePeer(address), LatePeer(address)};
    for (int round = 0; round < 3; ++round) {
      descriptors.take_all();
      if (round == 0) {
        for (const LatePeer& peer : peers) REQUIRE(peer.connect());
        for (const LatePeer& peer : peers) CHECK(peer.is_turned_away());
        CHECK(server->count(ShardCount::refused_descriptors) == 3);
      }
      CHECK_FALSE(earlier.has_ended());
      descriptors.release();
      CHECK(server.is_healthy());
    }
    CHECK(server->count(ShardCount::refused_descriptors) == 3);
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

TEST_CASE("the limit is of all shards together, exactly, whichever accepts") {
  for (const auto io : kBackends) {
    auto config = local_config(io, 3);
    config.max_connections = 7;
    TestServer server(config);
    for (int round = 0; round < 5; ++round) {
      std::vector<std::unique_ptr<RawClient>> clients;
      for (int i = 0; i < 7; ++i) {
        clients.push_back(std::make_unique<RawClient>(server.greeted()));
      }
      RawClient one_more = server.connect();
      CHECK(one_more.wait_for_end());
      CHECK(server->connections() == 7);
      clients.clear();
      CHECK(eventually([&] { return server->connections() == 0; }));
    }
  }
}

TEST_CASE("few connections are spread evenly, though they come at the same time") {
  for (const auto io : kBackends) {
    for (const unsigned shards : {2u, 3u, 4u}) {
      TestServer server(local_config(io, shards));
      std::vector<std::unique_ptr<RawClient>> clients(2 * shards);
      std::vector<std::thread> threads;
      for (auto& client : clients) {
        threads.emplace_back([&] { client = std::make_unique<RawClient>(server.address()); });
      }
      for (std::thread& thread : threads) thread.join();
      for (auto& client : clients) CHECK(client->greet());
      for (unsigned shard = 0; shard < shards; ++shard) CHECK(server->connections_of(shard) == 2);
    }
  }
}

// Those who go leave a shard with less to do; those who come fill it up again.
TEST_CASE("new connections go where others have left") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 8; ++i) {
      clients.push_back(std::make_unique<RawClient>(server.greeted()));
    }
    for (std::size_t i = 0; i < 8; i += 2)
      clients[i].reset();  // one by one they were placed in turn
    REQUIRE(eventually([&] { return server->connections() == 4; }));
    for (std::size_t i = 0; i < 8; i += 2) {
      clients[i] = std::make_unique<RawClient>(server.greeted());
    }
    CHECK(server->connections_of(0) == 4);
    CHECK(server->connections_of(1) == 4);
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
