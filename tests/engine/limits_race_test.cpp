// Threads race on keys of every kind of policy under a frozen clock: what is admitted is exactly
// the budget. Then a pair of windows is raced across a boundary.
#include <doctest/doctest.h>

#include <barrier>
#include <latch>
#include <string>
#include <thread>

#include "tests/engine/limits_fixture.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr std::size_t kThreads = 4;

template <class Body>
void run_threads(LimitsFixture& ask, Body body) {
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto worker = ask.enroll();
      start.arrive_and_wait();
      body(*worker, t);
      worker->offline();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("under a frozen clock each kind of policy admits exactly its budget") {
  for (const auto& [policy, budget] : std::vector<std::pair<std::uint32_t, std::uint64_t>>{
           {kQueue, 6}, {kFixed, 10}, {kSliding, 100}, {kDaily, 1000}, {kMonthly, 5}}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      LimitsFixture ask;
      std::array<std::uint64_t, kThreads> granted{};
      run_threads(ask, [&, id = policy](Worker& worker, std::size_t t) {
        Random random(50 + t);
        for (;;) {
          Request request = take("k", id, static_cast<std::uint32_t>(random.between(1, 3)));
          const Decision decision = decide(worker, request, ask.now);
          granted[t] += decision.granted;
          const Decision one = decide(worker, take("k", id), ask.now);
          granted[t] += one.granted;
          if (one.verdict != Verdict::admitted) break;
        }
      });
      std::uint64_t sum = 0;
      for (const std::uint64_t part : granted) sum += part;
      CAPTURE(policy);
      CHECK(sum == budget);
    }
  }
}

TEST_CASE("under a frozen clock exactly as many permits are given as there are") {
  for (int repeat = 0; repeat < 20; ++repeat) {
    LimitsFixture ask;
    std::array<std::uint64_t, kThreads> granted{};
    run_threads(ask, [&](Worker& worker, std::size_t t) {
      Decision decision;
      do {
        Grant grant;
        worker.acquire(take("k", kPermits), ask.now, decision, grant);
        granted[t] += decision.granted;
      } while (decision.verdict == Verdict::admitted);
    });
    std::uint64_t sum = 0;
    for (const std::uint64_t part : granted) sum += part;
    CHECK(sum == 10);
  }
}

TEST_CASE("permits raced for, given back and renewed: never more out than there are, none lost") {
  for (int repeat = 0; repeat < 5; ++repeat) {
    LimitsFixture ask;
    std::atomic<int> out{0};
    std::atomic<int> most{0};
    run_threads(ask, [&](Worker& worker, std::size_t) {
      for (int i = 0; i < 5000; ++i) {
        Decision decision;
        Grant grant;
        const Request request = take("k", kPermits, 3);
        worker.acquire(request, ask.now, decision, grant);
        if (decision.verdict != Verdict::admitted) continue;
        const int now_out = out.fetch_add(3) + 3;
        int seen = most.load();
        while (seen < now_out && !most.compare_exchange_weak(seen, now_out)) {
        }
        if (i % 3 == 0) worker.renew(request, ask.now, decision, grant);
        out.fetch_sub(3);
        worker.release(request, grant.id, ask.now, decision);
        if (decision.granted != 3) out.fetch_add(1000);
      }
    });
    CHECK(most.load() <= 10);
    CHECK(most.load() >= 3);
    CHECK(ask.left(kPermits, "k") == 10);
  }
}

// Half of the threads hold a reading from before the boundary. Whoever comes late finds the window
// closed and counts in the next one.
TEST_CASE("a sliding window raced across its boundary") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    LimitsFixture ask;
    ask.now = 660 * kSecond;
    std::array<std::uint64_t, kThreads> granted{};
    run_threads(ask, [&](Worker& worker, std::size_t t) {
      const Ticks reading = t % 2 == 0 ? 660 * kSecond - 1 : 660 * kSecond;
      for (int i = 0; i < 200; ++i) {
        granted[t] += decide(worker, take("k", kSliding), reading).granted;
      }
    });
    std::uint64_t sum = 0;
    for (const std::uint64_t part : granted) sum += part;
    // At the first tick of a window the previous one weighs all: together exactly the limit.
    CHECK(sum == 100);
  }
}
