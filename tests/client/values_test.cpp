// The client's pure parts: what the caller's values become, and the numbers it is told. Method:
// known answers at the edges.
#include <doctest/doctest.h>

#include <chrono>
#include <pail/http.hpp>
#include <pail/limit.hpp>

#include "client/src/in_flight.hpp"
#include "client/src/server_clock.hpp"
#include "protocol/messages.hpp"

using namespace std::chrono_literals;

TEST_CASE("Retry-After is whole seconds, rounded up, at least 1") {
  pail::Decision decision;
  decision.status = pail::Decision::Status::denied;
  const auto seconds = [&](std::chrono::nanoseconds wait) {
    decision.retry_after = wait;
    return pail::http::retry_after_seconds(decision).value();
  };
  CHECK(seconds(0ns) == 1);
  CHECK(seconds(1ns) == 1);
  CHECK(seconds(500ms) == 1);
  CHECK(seconds(1s) == 1);
  CHECK(seconds(1s + 1ns) == 2);
  CHECK(seconds(2s) == 2);
  CHECK(seconds(366 * 24h) == 366 * 24 * 3600);
  CHECK(pail::http::status(decision) == 429);

  decision.status = pail::Decision::Status::never;
  decision.retry_after = pail::Decision::kForever;
  CHECK(pail::http::status(decision) == 429);
  CHECK_FALSE(pail::http::retry_after_seconds(decision).has_value());

  decision.status = pail::Decision::Status::admitted;
  CHECK(pail::http::status(decision) == 200);
  CHECK_FALSE(pail::http::retry_after_seconds(decision).has_value());
}

TEST_CASE("a limit is a policy's name or a rate") {
  const auto policy = pail::Limit::policy("api");
  CHECK(policy.is_policy());
  CHECK(policy.policy_name() == "api");
  CHECK(policy.policy_id() == pail::protocol::policy_id("api"));

  const auto rate = pail::Limit::parse("100/min", 7);
  REQUIRE(rate.has_value());
  CHECK_FALSE(rate->is_policy());
  CHECK(rate->count() == 100);
  CHECK(rate->period() == 60s);
  CHECK(rate->burst() == 7);

  const auto wrong = pail::Limit::parse("100", 7);
  REQUIRE_FALSE(wrong.has_value());
  CHECK(wrong.error().code == pail::ErrorCode::bad_argument);
  CHECK(wrong.error().text.find("100/s") != std::string::npos);
}

TEST_CASE("every error code and status has a name of its own") {
  for (int code = 0; code <= static_cast<int>(pail::ErrorCode::system); ++code) {
    CHECK(pail::name(static_cast<pail::ErrorCode>(code)) != "unknown");
    for (int other = 0; other < code; ++other) {
      CHECK(pail::name(static_cast<pail::ErrorCode>(code)) !=
            pail::name(static_cast<pail::ErrorCode>(other)));
    }
  }
  CHECK(pail::name(pail::ErrorCode::timeout) == "timeout");
  CHECK(pail::name(pail::Decision::Status::never) == "never");
}

TEST_CASE("a deadline on the server's clock is never earlier than the caller's own") {
  using pail::internal::ServerClock;
  using pail::internal::Time;
  const Time greeted{10s};
  const ServerClock clock{5'000'000, greeted};

  // 5 ms after the greeting, 5 ms to go: 10 ms on, plus the fixed millisecond and 5 us for drift.
  CHECK(clock.expires_us(greeted + 5ms, greeted + 10ms) == 5'000'000 + 10'000 + 1'000 + 5);
  // Rounded up to a microsecond.
  CHECK(clock.expires_us(greeted, greeted + 1ns) == 5'000'000 + 1'001);
  // The margin grows by a thousandth of the age, and at a second nothing is said any more.
  CHECK(clock.expires_us(greeted + 100s, greeted + 100s + 5ms) ==
        5'000'000 + 100'005'000 + 1'000 + 100'000);
  CHECK(clock.expires_us(greeted + 998s, greeted + 998s + 5ms) != 0);
  CHECK(clock.expires_us(greeted + 1000s, greeted + 1000s + 5ms) == 0);
  // Farther ahead than the field can say.
  CHECK(clock.expires_us(greeted, greeted + 31min) == 0);

  // Modulo 2^32, and never 0, which would say "none".
  const ServerClock late{(std::uint64_t{7} << 32) - 2'000, greeted};
  CHECK(late.expires_us(greeted, greeted + 1ms) == 1);
  CHECK(late.expires_us(greeted, greeted + 3ms) == 2'000);
}

TEST_CASE("the ring of requests in flight keeps their order and its bound") {
  pail::internal::InFlight<int> ring(3);  // not a power of two: the bound still holds
  int calls[8] = {};
  std::uint64_t pushed = 0;
  std::uint64_t popped = 0;
  for (int round = 0; round < 100; ++round) {
    while (!ring.full()) {
      CHECK(ring.push(&calls[pushed % 8]) == pushed);
      ++pushed;
    }
    CHECK(pushed - popped == 3);
    ring.abandon(popped + 1);
    CHECK(ring.oldest() == popped);
    CHECK(ring.pop() == &calls[popped++ % 8]);
    CHECK(ring.pop() == nullptr);
    ++popped;
  }
  CHECK(ring.pop() != nullptr);
  CHECK(ring.empty());
}

TEST_CASE("tags skip 0, the server's own") {
  using Ring = pail::internal::InFlight<int>;
  CHECK(Ring::tag(0) == 1);
  CHECK(Ring::tag(0xFFFF'FFFEull) == 0xFFFF'FFFFu);
  CHECK(Ring::tag(0xFFFF'FFFFull) == 1);
  CHECK(Ring::tag(0x1'0000'0000ull) == 2);
}
