// Concern: what a key is given over time, whoever asks however often. Each case is a fault that
// other limiters had. Method: an engine under a clock that the test moves.
#include <doctest/doctest.h>

#include "tests/engine/engine_fixture.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;

struct Subject {
  Decision ask(Rate rate, Ticks now, std::uint32_t cost = 1) {
    return decide(*worker, take("subject", rate, cost), now);
  }
  // How many of `count` takes are admitted, one every `step` from `from` on.
  std::uint64_t admitted(Rate rate, Ticks from, Ticks step, std::uint64_t count) {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < count; ++i) sum += ask(rate, from + i * step).granted;
    return sum;
  }

  Engine engine{Options{}};
  std::unique_ptr<Worker> worker = engine.enroll();
};

}  // namespace

TEST_CASE("refused requests postpone nothing: who comes when told is admitted") {
  for (const Rate rate : {Rate{kSecondNs, 3, 1}, Rate{60 * kSecondNs, 7, 5}}) {
    Subject subject;
    Ticks now = kStart;
    for (int round = 0; round < 20; ++round) {
      Decision refusal;
      do refusal = subject.ask(rate, now);
      while (refusal.verdict == Verdict::admitted);
      CHECK(refusal.wait_ns > 0);
      const Ticks told = now + ticks_from_ns(refusal.wait_ns);
      // A thousand impatient takes on the way, the last of them a nanosecond too early.
      const Ticks step = (told - now) / 1000;
      CHECK(subject.admitted(rate, now, step, 1000) == 0);
      CHECK(subject.ask(rate, told - kTicksPerNs).verdict == Verdict::denied);
      CHECK(subject.ask(rate, told).verdict == Verdict::admitted);
      now = told;
    }
  }
}

TEST_CASE("over a minute nobody gets more than the burst and the rate, however often they ask") {
  // The last of them comes a moment before the minute is over, and so does not get its last token.
  Subject fast;
  CHECK(fast.admitted({kSecondNs, 100, 100}, kStart, kSecond / 1000, 60'000) == 100 + 6000 - 1);
  Subject slow;
  CHECK(slow.admitted({60 * kSecondNs, 100, 1}, kStart, kSecond / 100, 6'000) == 1 + 100 - 1);
}

TEST_CASE("fast limits are limits: 700 M/s, 1 M/s and more than a thousand a second") {
  const auto in_a_while = [](std::uint32_t a_second, Ticks step, std::uint64_t count) {
    Subject subject;
    return subject.admitted({kSecondNs, a_second, 1}, kStart, step, count);
  };
  CHECK(in_a_while(700'000'000, 1, 16'000) <= 700 + 1);  // a microsecond
  CHECK(in_a_while(700'000'000, 1, 16'000) >= 690);
  CHECK(in_a_while(1'000'000, 160, 100'000) <= 1000 + 1);  // a millisecond
  CHECK(in_a_while(1'000'000, 160, 100'000) >= 999);
  CHECK(in_a_while(1'001, 16'000, 1'000'000) <= 1'001 + 1);  // a second
  CHECK(in_a_while(1'001, 16'000, 1'000'000) >= 1'000);      // asked on the microsecond
}

TEST_CASE("what is charged is remembered for less than a millisecond, too") {
  Subject subject;
  const Rate rate{kSecondNs, 2000, 1};
  CHECK(subject.ask(rate, kStart).verdict == Verdict::admitted);
  CHECK(subject.ask(rate, kStart + ticks_from_ns(499'999)).verdict == Verdict::denied);
  CHECK(subject.ask(rate, kStart + ticks_from_ns(500'000)).verdict == Verdict::admitted);
}

TEST_CASE("a raised limit does not hide what is owed, and tells how long it is owed") {
  Subject subject;
  CHECK(subject.admitted({3600 * kSecondNs, 10, 10}, kStart, 0, 20) == 10);
  const Rate raised{60 * kSecondNs, 60, 60};
  const Decision refusal = subject.ask(raised, kStart);
  CHECK(refusal.verdict == Verdict::denied);
  CHECK(refusal.remaining == 0);
  // An hour is owed, and under the new limit a minute of it may be.
  CHECK(refusal.wait_ns == (3600 - 60 + 1) * kSecondNs);
  CHECK(subject.ask(raised, kStart + ticks_from_ns(refusal.wait_ns) - kTicksPerNs).granted == 0);
  CHECK(subject.ask(raised, kStart + ticks_from_ns(refusal.wait_ns)).granted == 1);
}

TEST_CASE("a lowered limit shows nothing left, not a number that has wrapped") {
  Subject subject;
  CHECK(subject.ask({kSecondNs, 1, 1000}, kStart, 500).remaining == 500);
  const Rate lowered{kSecondNs, 1, 3};
  const Decision refusal = subject.ask(lowered, kStart);
  CHECK(refusal.verdict == Verdict::denied);
  CHECK(refusal.remaining == 0);
  CHECK(refusal.limit == 3);
  CHECK(refusal.wait_ns == (500 + 1 - 3) * kSecondNs);
  CHECK(refusal.reset_ns == 500 * kSecondNs);
}
