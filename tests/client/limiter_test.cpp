// Concern: what only the limiter in process can get wrong: its policies, its workers shared by
// threads, its memory. Method: many threads and exact counts.
#include <pail/limiter.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using pail::ErrorCode;
using pail::Limit;
using pail::Limiter;

namespace {

Limiter made(const pail::LimiterOptions& options = {}) {
  auto limiter = Limiter::make(options);
  REQUIRE(limiter.has_value());
  return std::move(*limiter);
}

}  // namespace

TEST_CASE("a policy that cannot be used is told with what would be right") {
  for (const char* line : {"api", "api=1/s,0", "api=1/parsec,5"}) {
    const auto limiter = Limiter::make({.policies = {line}});
    REQUIRE_FALSE(limiter.has_value());
    CHECK(limiter.error().code == ErrorCode::bad_argument);
    CHECK(limiter.error().text.find("api") != std::string::npos);
  }
  CHECK_FALSE(Limiter::make({.policies = {"a=1/s,1", "a=2/s,2"}}).has_value());
}

TEST_CASE("more threads than workers are admitted exactly the budget") {
  Limiter limiter = made();
  const auto once = Limit::rate(1, 24h, 1000);
  std::atomic<std::uint32_t> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 500; ++n) {
        const auto decision = limiter.take(once, "shared");
        if (decision && decision->admitted()) admitted += decision->granted;
        (void)limiter.take(once, "own" + std::to_string(n));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(admitted == 1000);
}

TEST_CASE("a full memory refuses new keys, or lets them through, as it was told") {
  const auto once = Limit::rate(1, 24h, 1);
  for (const bool lets_through : {false, true}) {
    Limiter limiter = made({.memory_limit_bytes = 0, .admit_when_full = lets_through});
    const auto decision = limiter.take(once, "k");
    CHECK(decision.has_value() == lets_through);
    if (!decision) CHECK(decision.error().code == ErrorCode::table_full);
  }
}
