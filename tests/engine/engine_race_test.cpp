// Threads racing on few keys, each with its own worker. Under a frozen clock the number admitted
// must be exactly the budget, whoever wins; with clocks that disagree it may exceed that by what
// the difference refills.
#include <doctest/doctest.h>

#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/engine_fixture.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr Rate kThousandADay{86'400'000'000'000, 1, 1000};

std::vector<std::string> make_keys(std::size_t count) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back("subject-" + std::to_string(i));
  return keys;
}

// Takes from all keys in random batches and costs, until every key refuses a single token. Returns
// what was granted per key.
std::vector<std::uint64_t> drain(Worker& worker, const std::vector<std::string>& keys, Rate rate,
                                 Ticks now, Random& random) {
  std::vector<std::uint64_t> granted(keys.size());
  std::vector<Request> requests;
  std::vector<std::size_t> which;
  std::vector<Decision> decisions;
  for (std::size_t empty = 0; empty < keys.size();) {
    requests.clear();
    which.clear();
    // A full round with cost 1 to see whether there is anything left, among random ones.
    for (std::size_t i = 0; i < keys.size(); ++i) {
      which.push_back(i);
      requests.push_back(take(keys[i], rate));
      which.push_back(random.below(keys.size()));
      requests.push_back(
          take(keys[which.back()], rate, static_cast<std::uint32_t>(random.between(1, 3))));
      requests.back().partial = random.one_in(4);
      if (random.one_in(8)) requests.back().action = Action::peek;
    }
    decisions.resize(requests.size());
    worker.decide(requests, now, decisions);
    worker.end_turn(now);
    empty = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].action == Action::take) granted[which[i]] += decisions[i].granted;
      empty += i % 2 == 0 && decisions[i].verdict == Verdict::denied;
    }
  }
  return granted;
}

// Tokens granted per key when so many threads drain the keys at once, thread t by the clock
// `now(t)`.
template <class Clock>
std::vector<std::uint64_t> race(std::size_t threads, std::size_t key_count, Rate rate, Clock now) {
  Engine engine(Options{});
  const std::vector<std::string> keys = make_keys(key_count);
  std::vector<std::vector<std::uint64_t>> granted(threads);
  std::latch start(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      const auto worker = engine.enroll();
      Random random(100 + t);
      start.arrive_and_wait();
      granted[t] = drain(*worker, keys, rate, now(t), random);
    });
  }
  for (std::thread& thread : running) thread.join();
  std::vector<std::uint64_t> sums(key_count);
  for (const auto& part : granted) {
    for (std::size_t i = 0; i < key_count; ++i) sums[i] += part[i];
  }
  return sums;
}

}  // namespace

TEST_CASE("under a frozen clock exactly the budget is admitted") {
  for (const std::size_t threads : {1U, 2U, 4U}) {
    for (const std::size_t keys : {1U, 2U, 7U, 64U}) {
      for (int repeat = 0; repeat < 5; ++repeat) {
        CAPTURE(threads);
        CAPTURE(keys);
        for (const std::uint64_t sum :
             race(threads, keys, kThousandADay, [](std::size_t) { return kStart; })) {
          CHECK(sum == 1000);
        }
      }
    }
  }
}

TEST_CASE("clocks that disagree admit at most what their difference refills") {
  const Rate rate{1'000'000'000, 100, 1000};
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto lagging = [](std::size_t t) { return kStart + t * kSecond; };
    for (const std::uint64_t sum : race(4, 3, rate, lagging)) {
      CHECK(sum >= 1000);
      CHECK(sum <= 1000 + 3 * 100);
    }
  }
}
