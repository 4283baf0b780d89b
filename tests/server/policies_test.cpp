// Policies of a running server: reloaded under load, changed by signal, and never half.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string_view>
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

// One key each, as fast as a connection of one request at a time goes, until told to stop.
class Clients {
 public:
  Clients(const std::string& address, int count) {
    for (int c = 0; c < count; ++c) {
      threads_.emplace_back([this, address, key = "key" + std::to_string(c)] {
        RawClient client(address);
        if (!client.greet()) return void(failed_.fetch_add(1));
        for (std::uint32_t tag = 1; !is_over_.load(); ++tag) {
          if (!client.send(request_bytes(take(tag, key)))) return void(failed_.fetch_add(1));
          const auto reply = client.reply();
          const bool is_fine = reply && reply->tag == tag && reply->policy_version != 0 &&
                               reply->status <= protocol::Status::denied;
          is_fine ? answered_.fetch_add(1) : failed_.fetch_add(1);
        }
      });
    }
  }
  ~Clients() { stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  void stop() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  [[nodiscard]] std::uint64_t answered() const { return answered_; }
  [[nodiscard]] std::uint64_t failed() const { return failed_; }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::vector<std::thread> threads_;
};

TEST_CASE("a thousand reloads under load, every second one invalid") {
  const PolicyFile file(api(1'000'000));
  for (const server::IoChoice io : kBackends) {
    file.write(api(1'000'000));
    TestServer server(config_of(file, io, 2));
    Clients clients(server.address(), 2);
    REQUIRE(eventually([&] { return clients.answered() >= 100; }));
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
    const std::uint64_t before = clients.answered();
    CHECK(eventually([&] { return clients.answered() >= before + 100; }));
    clients.stop();
    CHECK(clients.failed() == 0);
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

// PAIL_RELOADS: how many; a hundred take some two seconds.
TEST_CASE("SIGHUP again and again under load, every second file invalid: nobody notices") {
  const PolicyFile file(api(1'000'000));
  const std::string ready = "/tmp/pail-policies-ready." + std::to_string(::getpid());
  Process paild({"--config", file.path(), "--shards", "2", "--listen", "127.0.0.1:0", "--resp",
                 "none", "--ready-file", ready});
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  Clients clients(between(Process::contents(ready), "[\"", "\"]"), 4);
  REQUIRE(eventually([&] { return clients.answered() >= 100; }));
  const char* const given = std::getenv("PAIL_RELOADS");
  const int reloads = given != nullptr ? std::atoi(given) : operations(200);
  const auto lines_of = [&](std::string_view text) {
    const std::string output = paild.output();
    int count = 0;
    for (auto at = output.find(text); at != std::string::npos; at = output.find(text, at + 1)) {
      ++count;
    }
    return count;
  };
  std::uint64_t answered = clients.answered();
  for (int i = 0; i < reloads; ++i) {
    // A line of its own says that the number of the line is the fault's.
    const bool is_valid = i % 2 == 0;
    file.write(is_valid ? api(1'000'000 + static_cast<std::uint64_t>(i))
                        : "\n[[policy]]\nname = " + std::to_string(i) + "\n");
    paild.signal(SIGHUP);
    const int expected = i / 2 + 1;
    REQUIRE(eventually([&] {
      return lines_of(is_valid ? "info reload: policies reloaded"
                               : "error reload_failed: the old policies stay") == expected;
    }));
    // Whatever became of it, the next request is answered.
    REQUIRE(eventually([&] { return clients.answered() > answered; }));
    answered = clients.answered();
  }
  clients.stop();
  CHECK(clients.failed() == 0);
  CHECK(lines_of("policies reloaded version=") == (reloads + 1) / 2);
  CHECK(lines_of("version=" + std::to_string(1 + (reloads + 1) / 2) + " ") == 1);
  CHECK(lines_of(":3: ") == reloads / 2);
  MESSAGE(reloads << " reloads, " << clients.answered() << " requests answered");
  paild.signal(SIGTERM);
  CHECK(paild.exit_code() == 0);
}

}  // namespace
}  // namespace pail::test
