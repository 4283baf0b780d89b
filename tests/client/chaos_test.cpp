// Concern: over a bad network the client never hangs, never invents an answer, and never tells of a
// request that was charged that it was not. Method: the chaos proxy between it and a real paild;
// what was charged is asked over a good connection afterwards.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <pail/client.hpp>
#include <thread>
#include <vector>

#include "tests/support/chaos_proxy.hpp"
#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::Client;
using pail::test::ChaosProxy;
using pail::test::Fate;
using pail::test::PaildProcess;

namespace {

constexpr std::uint32_t kBudget = 10'000;
// Refills once in hours: what is taken stays taken while a test runs.
const pail::Limit kSlow = pail::Limit::rate(10, 24h, kBudget);

pail::ClientOptions waiting(std::chrono::nanoseconds deadline) {
  pail::ClientOptions options;
  options.deadline = deadline;
  options.on_failure = pail::OnFailure::report;
  // Longer than a take's: under a sanitizer a greeting alone can cost 20 ms, and then nothing that
  // a case is about would happen.
  options.connect_timeout = std::max<std::chrono::nanoseconds>(deadline, 2s);
  return options;
}

struct Tally {
  std::atomic<std::uint32_t> admitted{0};
  std::atomic<std::uint32_t> unknown{0};  // maybe charged
  std::atomic<std::uint32_t> refused{0};
};

// Takes until the connection breaks, and again over the next.
void take_over_new_connections(const std::string& address, pail::ClientOptions options,
                               int connections, Tally& tally) {
  for (int n = 0; n < connections; ++n) {
    auto client = Client::connect(address, options);
    if (!client) continue;
    for (int i = 0; i < 40; ++i) {
      const auto decision = client->take(kSlow, "shared");
      if (decision) {
        ++(decision->admitted() ? tally.admitted : tally.refused);
        continue;
      }
      if (decision.error().maybe_charged) ++tally.unknown;
      if (!client->usable()) break;
    }
  }
}

// By four threads through the proxy; then compares with what the server has charged.
void check_books(const PaildProcess& paild, const ChaosProxy& proxy,
                 std::chrono::nanoseconds deadline, int connections, Tally& tally) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&] { take_over_new_connections(proxy.address(), waiting(deadline), connections, tally); });
  }
  for (std::thread& thread : threads) thread.join();
  auto client = Client::connect(paild.address(), waiting(30s));
  REQUIRE(client);
  pail::CallOptions only_look;
  only_look.cost = 0;
  const auto peek = client->peek(kSlow, "shared", only_look);
  if (!peek) FAIL("no peek: ", peek.error().text);
  const std::uint32_t charged = kBudget - peek->remaining;
  CHECK(tally.admitted <= charged);
  CHECK(charged <= tally.admitted + tally.unknown);
  CHECK(tally.refused == 0);
}

}  // namespace

TEST_CASE("cut and delayed, every take is answered once") {
  PaildProcess paild;
  Tally tally;
  ChaosProxy proxy(paild.address(), {.max_piece_bytes = 9, .max_delay_ms = 1, .delay_one_in = 20});
  check_books(paild, proxy, 30s, 2, tally);
  CHECK(tally.admitted == 4 * 2 * 40);
  CHECK(tally.unknown == 0);
}

TEST_CASE("connections that end in every way leave the books right") {
  PaildProcess paild;
  Tally tally;
  ChaosProxy proxy(paild.address(), {.max_piece_bytes = 200,
                                     .fate_within_bytes = 3000,
                                     .fates = {Fate::drop, Fate::reset, Fate::half_close}});
  check_books(paild, proxy, 30s, 12, tally);
  CHECK(tally.admitted > 0);
  CHECK(proxy.met(Fate::drop) + proxy.met(Fate::reset) + proxy.met(Fate::half_close) > 0);
}

TEST_CASE("a network that swallows everything costs the deadline, not more") {
  PaildProcess paild;
  Tally tally;
  ChaosProxy proxy(paild.address(), {.fate_within_bytes = 3000, .fates = {Fate::vanish}});
  check_books(paild, proxy, 20ms, 2, tally);
  CHECK(tally.unknown > 0);
}
