// Concern: the same as tests/client/failure_test.cpp, with a real paild that is stopped, killed
// with -9 and started anew, or lost behind a network that swallows everything, under the load of
// several threads. Method: no assertion on time; what the client counts and whether it comes back.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <pail/client.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/chaos_proxy.hpp"
#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::Client;
using pail::Decision;
using pail::test::ChaosProxy;
using pail::test::Fate;
using pail::test::PaildProcess;

namespace {

const pail::Limit kOncePerDay = pail::Limit::rate(1, 24h, 1000);

pail::ClientOptions as_a_gateway() {
  pail::ClientOptions options;
  options.deadline = 20ms;
  options.connect_timeout = 8s;  // the first one, on a busy machine
  return options;
}

Client connect(const std::string& address) {
  auto client = Client::connect(address, as_a_gateway());
  if (!client) FAIL("no connection: ", client.error().text);
  return std::move(*client);
}

// Four threads that take without end, while something happens.
class Load {
 public:
  explicit Load(Client& client) {
    for (int i = 0; i < 4; ++i) threads_.emplace_back([&, this] { run(client); });
  }
  ~Load() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  [[nodiscard]] std::uint64_t by_server() const { return by_server_; }
  [[nodiscard]] std::uint64_t fallen_back() const { return fallen_back_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }

  // Until so many more were decided by the server, or by nobody.
  static bool sees_more(const std::function<std::uint64_t()>& count, std::uint64_t more) {
    const std::uint64_t before = count();
    const auto give_up = std::chrono::steady_clock::now() + pail::test::kProcessPatience;
    while (count() < before + more) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  void run(Client& client) {
    while (!is_over_) {
      const auto decision = client.take(kOncePerDay, "k");
      if (!decision) {
        ++errors_;
      } else {
        ++(decision->is_fallback() ? fallen_back_ : by_server_);
      }
    }
  }

  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> by_server_{0};
  std::atomic<std::uint64_t> fallen_back_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::vector<std::thread> threads_;
};

}  // namespace

TEST_CASE("a server that is stopped under load, and goes on") {
  PaildProcess paild;
  Client client = connect(paild.address());
  Load load(client);
  for (int round = 0; round < 2; ++round) {
    REQUIRE(Load::sees_more([&] { return load.by_server(); }, 100));
    paild.process().signal(SIGSTOP);
    // Far more than could be, if each cost its deadline: the circuit is open.
    REQUIRE(Load::sees_more([&] { return load.fallen_back(); }, 100'000));
    paild.process().signal(SIGCONT);
  }
  REQUIRE(Load::sees_more([&] { return load.by_server(); }, 100));
  CHECK(load.errors() == 0);
  const auto counters = client.counters();
  CHECK(counters.circuit_opened >= 2);
  CHECK(counters.timeouts < counters.fallback_open / 100);
}

TEST_CASE("a server that is killed under load, and started anew") {
  const std::string path = "/tmp/pail-outage-test-" + std::to_string(::getpid()) + ".sock";
  const std::vector<std::string> arguments{"--listen", "unix:" + path};
  std::optional<PaildProcess> paild;
  paild.emplace(arguments);
  Client client = connect("unix:" + path);
  Load load(client);
  REQUIRE(Load::sees_more([&] { return load.by_server(); }, 100));
  paild->process().signal(SIGKILL);
  paild->process().wait();
  REQUIRE(Load::sees_more([&] { return load.fallen_back(); }, 1000));
  paild.emplace(arguments);
  REQUIRE(Load::sees_more([&] { return load.by_server(); }, 100));
  CHECK(load.errors() == 0);
  CHECK(client.counters().connects == 2);
}

TEST_CASE("a network that swallows everything, connections anew included, and then works") {
  PaildProcess paild;
  ChaosProxy proxy(paild.address(), {.fate_within_bytes = 20'000, .fates = {Fate::vanish}});
  Client client = connect(proxy.address());
  Load load(client);
  // Each connection serves for a while, then hangs for good. Only a new one helps.
  for (int round = 0; round < 3; ++round) {
    REQUIRE(Load::sees_more([&] { return load.by_server(); }, 10));
    REQUIRE(Load::sees_more([&] { return proxy.met(Fate::vanish); }, 1));
  }
  CHECK(load.errors() == 0);
  CHECK(client.counters().connects >= 2);
  CHECK(client.counters().circuit_opened >= 2);
}
