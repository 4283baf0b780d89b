// The client against a real paild: exact counts under many threads, a server that is stopped, one
// that dies, one that leaves in good order. Method: paild as a process of its own, so that it can
// be stopped and killed.
#include <doctest/doctest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <optional>
#include <pail/client.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::Client;
using pail::ErrorCode;
using pail::test::PaildProcess;

namespace {

// Refills nothing while a test runs.
constexpr std::uint32_t kBudget = 1000;
const pail::Limit kOncePerDay = pail::Limit::rate(1, 24h, kBudget);

pail::ClientOptions patient() {
  pail::ClientOptions options;
  options.deadline = 30s;
  options.connect_timeout = 30s;
  options.on_failure = pail::OnFailure::report;
  return options;
}

Client connect(const std::string& address, pail::ClientOptions options = patient()) {
  auto client = Client::connect(address, std::move(options));
  if (!client) FAIL("no connection: ", client.error().text);
  return std::move(*client);
}

void in_parallel(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("eight threads on one client are admitted exactly the budget") {
  PaildProcess paild;
  Client client = connect(paild.address());
  std::atomic<std::uint32_t> admitted = 0;
  std::atomic<std::uint32_t> refused = 0;
  std::atomic<std::uint32_t> errors = 0;
  in_parallel(8, [&](int) {
    for (int i = 0; i < 250; ++i) {
      const auto decision = client.take(kOncePerDay, "shared");
      if (!decision) {
        ++errors;
      } else {
        ++(decision->admitted() ? admitted : refused);
      }
    }
  });
  CHECK(admitted == kBudget);
  CHECK(refused == 8 * 250 - kBudget);
  CHECK(errors == 0);
}

TEST_CASE("four clients and every cost are admitted exactly the budget") {
  PaildProcess paild({"--shards", "2"});
  std::atomic<std::uint32_t> granted = 0;
  in_parallel(4, [&](int number) {
    Client client = connect(paild.address());
    for (std::uint32_t i = 0; i < 300; ++i) {
      pail::CallOptions options;
      options.cost = 1 + (i + static_cast<std::uint32_t>(number)) % 7;
      options.partial = i % 2 == 0;
      const auto decision = client.take(kOncePerDay, "shared", options);
      if (decision && decision->admitted()) granted += decision->granted;
    }
    // Single tokens take what the larger costs left behind.
    while (true) {
      const auto decision = client.take(kOncePerDay, "shared");
      if (!decision || !decision->admitted()) break;
      granted += decision->granted;
    }
  });
  CHECK(granted == kBudget);
}

TEST_CASE("a decision says all there is to say, and peek and reset do what they promise") {
  PaildProcess paild({"--policy", "api=2/s,5"});
  Client client = connect(paild.address());
  const auto api = pail::Limit::policy("api");

  const auto fresh = client.peek(api, "alice");
  REQUIRE(fresh.has_value());
  CHECK(fresh->admitted());
  CHECK(fresh->limit == 5);
  CHECK(fresh->granted == 1);  // what a take would get

  const auto four = client.take(api, "alice", {.cost = 4});
  REQUIRE(four.has_value());
  CHECK(four->admitted());
  CHECK(four->granted == 4);
  CHECK(four->remaining == 1);
  CHECK(four->retry_after == 0ns);
  CHECK(four->reset_after > 0ns);
  CHECK(four->reset_after <= 2s);

  // Five are there again after two seconds at the earliest; asked at once that is more than none.
  const auto five = client.take(api, "alice", {.cost = 5});
  REQUIRE(five.has_value());
  CHECK(five->status == pail::Decision::Status::denied);
  CHECK(five->retry_after > 0ns);
  CHECK(five->retry_after <= 2s);

  const auto six = client.take(api, "alice", {.cost = 6});
  REQUIRE(six.has_value());
  CHECK(six->status == pail::Decision::Status::never);
  CHECK(six->retry_after == pail::Decision::kForever);

  const auto some = client.take(api, "bob", {.cost = 6, .partial = true});
  REQUIRE(some.has_value());
  CHECK(some->granted == 5);

  CHECK(client.reset(api, "alice").has_value());
  CHECK(client.take(api, "alice", {.cost = 5})->granted == 5);
  CHECK(client.ping().has_value());

  const auto unknown = client.take(pail::Limit::policy("apu"), "alice");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().code == ErrorCode::unknown_policy);
  CHECK(unknown.error().text.find("'apu'") != std::string::npos);

  // 366 days x 5 / 1 are more than 4.5 years: only the server knows, and its words arrive.
  const auto too_long = client.take(pail::Limit::rate(1, 366 * 24h, 5), "alice");
  REQUIRE_FALSE(too_long.has_value());
  CHECK(too_long.error().code == ErrorCode::bad_argument);
  CHECK(too_long.error().text.find("4.5 years") != std::string::npos);
  CHECK(client.take(pail::Limit::rate(1, 366 * 24h, 4), "alice").has_value());
  CHECK(client.usable());
}

TEST_CASE("keys are any bytes, and of any length up to the limit") {
  PaildProcess paild;
  Client client = connect(paild.address());
  const auto once = pail::Limit::rate(1, 24h, 1);
  std::vector<std::string> keys{std::string("a\0", 2),  "a",
                                std::string("\0", 1),   "\xff\xfe",
                                std::string(1024, 'k'), std::string(1023, 'k')};
  for (const std::string& key : keys) CHECK(client.take(once, key)->admitted());
  for (const std::string& key : keys) CHECK_FALSE(client.take(once, key)->admitted());
}

TEST_CASE("over a Unix socket") {
  const std::string path = "/tmp/pail-client-test-" + std::to_string(::getpid()) + ".sock";
  PaildProcess paild({"--listen", "unix:" + path});
  Client client = connect("unix:" + path);
  CHECK(client.take(kOncePerDay, "k")->admitted());
}

TEST_CASE(
    "calls to a stopped server return at their deadline, and nothing of them is charged later") {
  PaildProcess paild;
  Client client = connect(paild.address());
  REQUIRE(client.take(kOncePerDay, "k")->remaining == kBudget - 1);

  paild.process().signal(SIGSTOP);
  std::atomic<int> timeouts = 0;
  in_parallel(8, [&](int) {
    for (int i = 0; i < 5; ++i) {
      const auto decision = client.take(kOncePerDay, "k", {.deadline = 5ms});
      if (!decision && decision.error().code == ErrorCode::timeout) ++timeouts;
    }
  });
  // All forty returned while the server was, and is, stopped.
  CHECK(timeouts == 8 * 5);

  // The server reads them now. Those whose deadline has passed by more than the margin (a
  // millisecond and a thousandth of the connection's age) are `expired` and not charged: at least
  // all but the last of each thread, since a thread's deadlines are 5 ms apart. The late answers go
  // to nobody; ping's comes behind them all.
  paild.process().signal(SIGCONT);
  REQUIRE(client.ping().has_value());
  const auto after = client.peek(kOncePerDay, "k");
  REQUIRE(after.has_value());
  CHECK(client.usable());
  const auto charged = kBudget - 1 - (after->remaining + 1);
  CHECK(charged <= 8);
}

TEST_CASE("the server's death wakes all who wait, and later calls say so at once") {
  PaildProcess paild;
  Client client = connect(paild.address());
  REQUIRE(client.ping().has_value());
  paild.process().signal(SIGSTOP);

  constexpr int kThreads = 8;
  std::latch calling(kThreads);
  std::atomic<int> closed = 0;
  std::thread killer([&] {
    calling.wait();
    paild.process().signal(SIGKILL);
  });
  in_parallel(kThreads, [&](int) {
    calling.count_down();
    const auto decision = client.take(kOncePerDay, "k");  // the deadline is half a minute away
    if (!decision && decision.error().code == ErrorCode::closed) ++closed;
  });
  killer.join();
  CHECK(closed == kThreads);
  CHECK_FALSE(client.usable());

  const auto later = client.take(kOncePerDay, "k");
  REQUIRE_FALSE(later.has_value());
  CHECK(later.error().code == ErrorCode::closed);
  CHECK_FALSE(later.error().maybe_charged);
  // The kernel takes a dead process's listener away a little after its connections.
  paild.process().wait();
  bool refused = false;
  for (int attempt = 0; attempt < 10'000 && !refused; ++attempt) {
    const auto again = Client::connect(paild.address(), patient());
    REQUIRE_FALSE(again.has_value());
    refused = again.error().code == ErrorCode::connection_refused;
  }
  CHECK(refused);
}

// What is asked of the dead one is answered as closed; what may have been charged is not asked
// again.
TEST_CASE("a server that was killed and started anew is found by the same client") {
  const std::string path = "/tmp/pail-client-test-" + std::to_string(::getpid()) + ".sock";
  std::optional<PaildProcess> paild;
  paild.emplace(std::vector<std::string>{"--listen", "unix:" + path});
  Client client = connect("unix:" + path);
  CHECK(client.take(kOncePerDay, "k")->remaining == kBudget - 1);
  for (const bool is_asked_meanwhile : {false, true}) {
    paild->process().signal(SIGKILL);
    paild->process().wait();
    for (int i = 0; i < (is_asked_meanwhile ? 100 : 0); ++i) {
      const auto decision = client.take(kOncePerDay, "k");
      REQUIRE_FALSE(decision.has_value());
      CHECK(decision.error().code == ErrorCode::closed);
      CHECK((i == 0 || !decision.error().maybe_charged));
      CHECK_FALSE(client.usable());
    }
    paild.emplace(std::vector<std::string>{"--listen", "unix:" + path});
    auto decision = client.take(kOncePerDay, "k");
    const auto give_up = std::chrono::steady_clock::now() + pail::test::kProcessPatience;
    while (!decision && is_asked_meanwhile && std::chrono::steady_clock::now() < give_up) {
      CHECK(decision.error().code == ErrorCode::closed);
      CHECK_FALSE(decision.error().maybe_charged);
      decision = client.take(kOncePerDay, "k");
    }
    REQUIRE(decision.has_value());
    CHECK(decision->remaining == kBudget - 1);
    CHECK(client.usable());
  }
}

TEST_CASE("a server that leaves in good order answers what it received") {
  PaildProcess paild;
  Client client = connect(paild.address());
  std::atomic<int> wrong = 0;
  std::atomic<int> answered = 0;
  std::latch busy(8);
  std::thread ender([&] {
    busy.wait();
    paild.process().signal(SIGTERM);
  });
  in_parallel(8, [&](int) {
    bool counted = false;
    for (;;) {
      const auto decision = client.take(kOncePerDay, "k");
      if (!counted) busy.count_down();
      counted = true;
      if (decision) {
        ++answered;
        continue;
      }
      if (decision.error().code != ErrorCode::closed) ++wrong;
      return;
    }
  });
  ender.join();
  CHECK(paild.process().wait() == 0);
  CHECK(wrong == 0);
  CHECK(answered >= 8);
}
