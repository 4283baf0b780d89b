// Policies of a running server: reloaded under load, changed by signal, and never half.
#include <doctest/doctest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"
#include "tests/support/scale.hpp"

namespace pail::test {
namespace {

class PolicyFile {
 public:
  explicit PolicyFile(const std::string& text)
      : path_("/tmp/pail-policies-test." + std::to_string(::getpid()) + ".toml") {
    write(text);
  }
  ~PolicyFile() { ::unlink(path_.c_str()); }
  PolicyFile(const PolicyFile&) = delete;
  PolicyFile& operator=(const PolicyFile&) = delete;
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

std::string api(std::uint64_t rate) {
  return "[[policy]]\nname = \"api\"\nrate = \"" + std::to_string(rate) + "/s\"\nburst = 1000\n";
}

server::Config config_of(const PolicyFile& file, server::IoChoice io, unsigned shards) {
  server::Config config = local_config(io, shards);
  config.file = file.path();
  config.definitions = policy::read_file(file.path())->policies;
  config.policies = policy::to_list(config.definitions, 0)->policies;
  return config;
}

protocol::Request take(std::uint32_t tag, std::string_view key) {
  protocol::Request request;
  request.op = protocol::Op::take;
  request.tag = tag;
  request.policy = protocol::policy_id("api");
  request.cost = 1;
  request.key = protocol::as_body(key);
  return request;
}

TEST_CASE("a thousand reloads under load, every second one invalid") {
  const PolicyFile file(api(1'000'000));
  for (const server::IoChoice io : kBackends) {
    file.write(api(1'000'000));
    TestServer server(config_of(file, io, 2));
    std::atomic<bool> is_over{false};
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> failed{0};
    std::vector<std::thread> clients;
    for (int c = 0; c < 2; ++c) {
      clients.emplace_back([&, c] {
        RawClient client = server.connect();
        if (!client.greet()) return void(failed.fetch_add(1));
        const std::string key = "key" + std::to_string(c);
        for (std::uint32_t tag = 1; !is_over.load(); ++tag) {
          if (!client.send(request_bytes(take(tag, key)))) return void(failed.fetch_add(1));
          const auto reply = client.reply();
          const bool is_fine = reply && reply->tag == tag && reply->policy_version != 0 &&
                               reply->status <= protocol::Status::denied;
          is_fine ? answered.fetch_add(1) : failed.fetch_add(1);
        }
      });
    }
    REQUIRE(eventually([&] { return answered >= 100; }));
    const int reloads = operations(1000);
    int refused = 0;
    for (int i = 0; i < reloads; ++i) {
      const bool is_valid = i % 2 == 0;
      file.write(is_valid ? api(1'000'000 + static_cast<std::uint64_t>(i))
                          : "[[policy]]\nname = 5\n");
      const auto version = server->policies().reload("test");
      CHECK(version.has_value() == is_valid);
      if (!version && version.error().find(file.path() + ":2: ") == 0) ++refused;
    }
    CHECK(refused == reloads / 2);
    CHECK(server->policies().version() == static_cast<std::uint32_t>(1 + (reloads + 1) / 2));
    const std::uint64_t before = answered;
    CHECK(eventually([&] { return answered >= before + 100; }));
    is_over = true;
    for (std::thread& client : clients) client.join();
    CHECK(failed == 0);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("what was reloaded decides the next request") {
  const PolicyFile file("[[policy]]\nname = \"api\"\nrate = \"1/min\"\n");
  TestServer server(config_of(file, server::IoChoice::uring, 1));
  RawClient client = server.greeted();
  const auto ask = [&](std::uint32_t tag) {
    REQUIRE(client.send(request_bytes(take(tag, "k"))));
    const auto reply = client.reply();
    REQUIRE(reply);
    return *reply;
  };
  CHECK(ask(1).status == protocol::Status::ok);
  CHECK(ask(2).wait_ns > 50'000'000'000);
  file.write("[[policy]]\nname = \"api\"\nrate = \"60/min\"\nburst = 1\n");
  REQUIRE(server->policies().reload("test"));
  const protocol::Reply raised = ask(3);
  CHECK(raised.status == protocol::Status::denied);
  CHECK(raised.wait_ns <= 1'000'000'000);
  CHECK(raised.policy_version == 2);
  REQUIRE(server->policies().set("api", {"mode=shadow"}));
  CHECK(ask(4).info == protocol::kInfoShadow);
  REQUIRE(server->policies().override_key("api", "k", {"rate=1000/s"}));
  REQUIRE(server->policies().set("api", {"mode=enforce"}));
  CHECK(ask(5).info == protocol::kInfoOverride);
  CHECK(ask(6).limit == 1000);
}

TEST_CASE("SIGHUP reads the file again, and a mistake in it changes nothing") {
  const PolicyFile file(api(5));
  const std::string ready = "/tmp/pail-policies-ready." + std::to_string(::getpid());
  Process paild({"--config", file.path(), "--listen", "127.0.0.1:0", "--resp", "none",
                 "--ready-file", ready});
  const auto says = [&](const std::string& text) {
    return eventually([&] { return paild.output().find(text) != std::string::npos; });
  };
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  file.write(api(9));
  paild.signal(SIGHUP);
  CHECK(says("info reload: policies reloaded version=2 policies=1"));
  file.write("[[policy]]\nname = \"api\"\nrate = 9\n");
  paild.signal(SIGHUP);
  CHECK(says("error reload_failed: the old policies stay reason=\""));
  CHECK(says(":3: policy"));
  paild.signal(SIGTERM);
  CHECK(paild.exit_code() == 0);
}

}  // namespace
}  // namespace pail::test
