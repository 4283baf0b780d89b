// Concern: nobody asks again before he may, forever, in step with others, or beyond what retries
// may be of the traffic; paced calls keep their distance. Method: seeds and clocks of our own.
#include <pail/retry.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using pail::Decision;
using pail::Pacer;
using pail::Retry;
using pail::RetryBudget;

namespace {

Decision refused(std::chrono::nanoseconds retry_after) {
  Decision decision;
  decision.retry_after = retry_after;
  return decision;
}

}  // namespace

TEST_CASE("never before retry-after, and spread over the pause behind it") {
  std::set<std::int64_t> waits;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Retry retry({.max_attempts = 3, .base = 100ms, .cap = 150ms}, seed);
    const auto first = retry.after(refused(1s));
    REQUIRE(first.has_value());
    CHECK(*first >= 1s);
    CHECK(*first <= 1100ms);
    const auto second = retry.after_failure();
    REQUIRE(second.has_value());
    CHECK(*second >= 0ns);
    CHECK(*second <= 150ms);
    CHECK_FALSE(retry.after(refused(1s)).has_value());
    waits.insert(first->count());
  }
  CHECK(waits.size() > 190);
  CHECK(*waits.begin() < 1'010'000'000);
  CHECK(*waits.rbegin() > 1'090'000'000);
}

TEST_CASE("what is hopeless is given up") {
  Decision never = refused(Decision::kForever);
  never.status = Decision::Status::never;
  CHECK_FALSE(Retry({}).after(never).has_value());
  CHECK_FALSE(Retry({.longest_wait = 1s}).after(refused(2s)).has_value());
  CHECK(*Retry({.longest_wait = 2s}).after(refused(2s)) == 2s);
  CHECK_FALSE(Retry({.max_attempts = 1}).after_failure().has_value());
  Decision fine;
  fine.status = Decision::Status::admitted;
  CHECK_FALSE(Retry({}).after(fine).has_value());
}

TEST_CASE("retries are a part of the traffic") {
  RetryBudget budget(10, 5);
  int retries = 0;
  for (int i = 0; i < 1000; ++i) {
    Retry retry({.max_attempts = 100, .budget = &budget}, 1);
    while (retry.after_failure()) ++retries;
  }
  CHECK(retries == 5 + 100 - 1);  // the first attempt earned what there was no room for
}

TEST_CASE("a budget shared by threads is spent once") {
  RetryBudget budget(1, 1000);
  std::atomic<int> spent{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) spent += budget.try_retry();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(spent == 1000);
}

TEST_CASE("paced calls keep their distance, and who would wait too long leaves the turn") {
  Pacer pacer(3, 1s);
  const Pacer::Clock::time_point start(100s);
  CHECK(*pacer.reserve(start) == 0ns);
  CHECK(*pacer.reserve(start) == 333'333'334ns);
  CHECK(*pacer.reserve(start + 100ms) == 566'666'668ns);
  CHECK_FALSE(pacer.reserve(start, 500ms).has_value());
  CHECK(*pacer.reserve(start) == 1'000'000'002ns);
  CHECK(*pacer.reserve(start + 10s) == 0ns);  // nothing was saved up
  CHECK(*pacer.reserve(start + 10s) == 333'333'334ns);
}

TEST_CASE("threads have turns of their own") {
  Pacer pacer(1, 1ms);
  const Pacer::Clock::time_point start(100s);
  std::vector<std::vector<std::int64_t>> turns(4);
  std::vector<std::thread> threads;
  for (auto& mine : turns) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) mine.push_back(pacer.reserve(start)->count());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::int64_t> all;
  for (const auto& mine : turns) all.insert(mine.begin(), mine.end());
  CHECK(all.size() == 2000);
  CHECK(*all.rbegin() == 1'999'000'000);
}
