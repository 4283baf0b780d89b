// Concern: workers read the clock at different moments, and none refuses a token that is there
// because its reading is older than another's. Method: two workers with readings of the test's
// choice; and two threads that ask for exactly what there is.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/engine_fixture.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr Rate kFiveADay{86'400'000'000'000, 1, 5};
constexpr Ticks kAge = kSecond / 1000;  // of the old reading

struct TestClock {
  Ticks now = kStart;
  int reads = 0;
  std::function<void()> before_read = {};

  ClockSource source() {
    return {[](const void* context) noexcept {
              auto& clock = *static_cast<TestClock*>(const_cast<void*>(context));
              if (clock.before_read) clock.before_read();
              ++clock.reads;
              return clock.now;
            },
            this};
  }
};

struct TwoWorkers {
  Engine engine{Options{}};
  TestClock clock{.now = kStart + kAge};
  std::unique_ptr<Worker> early = engine.enroll();
  std::unique_ptr<Worker> late = engine.enroll(clock.source());  // decides by an old reading
};

}  // namespace

TEST_CASE("an old reading refuses no token that is there") {
  TwoWorkers two;
  CHECK(decide(*two.early, take("k", kFiveADay, 4), kStart + kAge).granted == 4);
  const auto peek = with(Action::peek, take("k", kFiveADay));
  CHECK(decide(*two.late, peek, kStart).verdict == Verdict::admitted);
  const Decision last = decide(*two.late, take("k", kFiveADay), kStart);
  CHECK(last.verdict == Verdict::admitted);
  CHECK(last.granted == 1);
  CHECK(last.remaining == 0);
  CHECK(decide(*two.late, take("k", kFiveADay), kStart).verdict == Verdict::denied);
  CHECK(decide(*two.early, take("k", kFiveADay), kStart + kAge).verdict == Verdict::denied);
}

// The reason for all this: it errs against the caller where nothing tells the time.
TEST_CASE("without a clock an old reading refuses, and says for how long") {
  TwoWorkers two;
  CHECK(decide(*two.late, take("k", kFiveADay, 4), kStart + kAge).granted == 4);
  const Decision refusal = decide(*two.early, take("k", kFiveADay), kStart);
  CHECK(refusal.verdict == Verdict::denied);
  CHECK(refusal.wait_ns == ns_rounded_up(kAge));
}

TEST_CASE("the clock is read once for a group with refusals, and not for one without") {
  TwoWorkers two;
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Request> requests;
  for (const std::string& key : keys) requests.push_back(take(key, kFiveADay, 4));
  std::vector<Decision> decisions(requests.size());
  two.early->decide(requests, kStart + kAge, decisions);

  for (Request& request : requests) request.cost = 1;
  two.late->decide(requests, kStart + kAge, decisions);
  CHECK(two.clock.reads == 0);
  two.late->decide(requests, kStart + kAge, decisions);
  for (const Decision& decision : decisions) CHECK(decision.verdict == Verdict::denied);
  CHECK(two.clock.reads == 1);
}

TEST_CASE("whoever is overtaken at every reading is refused in the end") {
  TwoWorkers two;
  const Rate rate{1'000'000'000, 1, 1};
  CHECK(decide(*two.early, take("k", rate), kStart).granted == 1);
  two.clock.now = kStart;
  two.clock.before_read = [&] {  // a token comes, and is gone before it is seen
    two.clock.now += kSecond;
    CHECK(decide(*two.early, take("k", rate), two.clock.now).granted == 1);
  };
  CHECK(decide(*two.late, take("k", rate), kStart).verdict == Verdict::denied);
  CHECK(two.clock.reads >= 2);
  CHECK(two.clock.reads <= 5);
}

// Burst 2 for two threads that take one each: all are admitted, whoever has the older reading.
TEST_CASE("threads that ask for exactly what there is are all admitted") {
  constexpr int kRounds = 2000;
  constexpr std::size_t kKeys = 16;
  const Rate rate{86'400'000'000'000, 1, 2};
  const auto read = [](const void*) noexcept {
    return ticks_from_ns(
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  };
  Engine engine(Options{});
  std::atomic<int> arrived{0};
  std::atomic<int> refused{0};
  const auto ask = [&](bool backwards) {
    const auto worker = engine.enroll({read, nullptr});
    std::vector<std::string> keys(kKeys);
    std::vector<Request> requests(kKeys);
    std::vector<Decision> decisions(kKeys);
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kKeys; ++i) {
        keys[i] = std::to_string(round) + "/" + std::to_string(backwards ? kKeys - 1 - i : i);
        requests[i] = take(keys[i], rate);
      }
      const Ticks now = read(nullptr);  // and whoever read first may well be the last to decide
      arrived.fetch_add(1);
      while (arrived.load() < 2 * (round + 1)) std::this_thread::yield();
      worker->decide(requests, now, decisions);
      worker->end_turn(now);
      for (const Decision& decision : decisions) refused += decision.granted == 0 ? 1 : 0;
    }
  };
  std::thread other([&] { ask(true); });
  ask(false);
  other.join();
  CHECK(refused.load() == 0);
}
