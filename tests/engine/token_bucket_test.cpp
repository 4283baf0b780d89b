// The arithmetic of a token bucket, against exact rational buckets: 10 million random operations
// over rates from 1 per 366 days to 1e9/s, a quarter of them by an old reading of the clock. Two
// models run along. The one that refills at the engine's rounded rate must agree in every answer
// and every number; the one at the true rate must never be overdrawn, by the latest reading that
// anything was taken by.
#include "server/engine/token_bucket.hpp"

#include <doctest/doctest.h>

#include "server/engine/rate.hpp"
#include "tests/engine/bucket_model.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using pail::test::ExactBucket;
using pail::test::Random;

namespace {

constexpr Ticks kSecond = ticks_from_ns(1'000'000'000);
constexpr std::uint32_t kMax32 = ~std::uint32_t{0};

// How often each verdict was given.
class VerdictCounts {
 public:
  int& operator[](Verdict verdict) { return counts_[static_cast<std::size_t>(verdict)]; }

 private:
  std::array<int, 16> counts_{};
};

// One bucket of the engine and its two models, moved through time together.
class Trial {
 public:
  Trial(const Rate& rate, const TokenBucket& limit, Ticks start, VerdictCounts& seen)
      : seen_(seen),
        limit_(limit),
        rounded_(1, limit.per_token, limit.burst),
        true_(rate.count, pail::test::Wide{rate.period_ns} * kTicksPerNs, limit.burst),
        latest_(start) {
    advance(0);
  }

  [[nodiscard]] Ticks now() const { return now_; }
  [[nodiscard]] const TokenBucket& limit() const { return limit_; }
  [[nodiscard]] Ticks last_wait() const { return wait_; }
  [[nodiscard]] std::uint32_t left(std::uint8_t priority) const {
    return remaining(limit_, word_, now_, priority);
  }

  // Time goes on; then decisions are made by a reading of the clock that is so old.
  void advance(Ticks elapsed, Ticks age = 0) {
    latest_ = std::min(latest_ + elapsed, kMaxNow);
    now_ = latest_ - std::min(age, latest_ - kMinNow);
    rounded_.look_at(now_);
    true_.look_at(std::max(now_, drawn_by_));
  }

  // One take; false at the first thing that is not as the models say.
  [[nodiscard]] bool step(const Ask& ask) {
    const std::uint64_t reserve = limit_.reserve[ask.priority];
    const std::uint64_t least = ask.partial ? 1 : ask.cost;
    if (never_fits(limit_, ask) != (least + reserve > limit_.burst)) return false;
    if (never_fits(limit_, ask)) {
      ++seen_[Verdict::never];
      return true;
    }
    const std::uint64_t there = rounded_.tokens() > reserve ? rounded_.tokens() - reserve : 0;
    const std::uint64_t wanted =
        ask.partial ? std::clamp<std::uint64_t>(there, 1, ask.cost) : ask.cost;
    const bool fits = there >= wanted;
    const Step step = take(limit_, word_, now_, ask);
    ++seen_[step.verdict];
    if (fits) return admitted(ask, step, wanted) && numbers(ask.priority);
    return refused(ask, step, wanted) && numbers(ask.priority);
  }

 private:
  [[nodiscard]] bool admitted(const Ask&, const Step& step, std::uint64_t wanted) {
    if (step.verdict != Verdict::admitted || step.granted != wanted) return false;
    if (step.next <= word_ || step.next <= now_ || step.next >> 63 != 0) return false;
    if (!true_.has(wanted)) return false;  // the promise: never more than the true rate allows
    rounded_.draw(wanted);
    true_.draw(wanted);
    drawn_by_ = std::max(drawn_by_, now_);
    word_ = step.next;
    wait_ = 0;
    return true;
  }

  [[nodiscard]] bool refused(const Ask& ask, const Step& step, std::uint64_t wanted) {
    const bool without_reserve = rounded_.has(wanted);
    if (step.verdict != (without_reserve ? Verdict::shed : Verdict::denied)) return false;
    if (step.next != 0 || step.granted != 0) return false;
    wait_ = retry_after(limit_, word_, now_, ask);
    if (wait_ == 0 || wait_ != rounded_.ticks_until(wanted + limit_.reserve[ask.priority])) {
      return false;
    }
    // Whoever waits so long is admitted, and a tick earlier is refused; in nanoseconds likewise.
    const std::uint64_t wait_ns = ns_rounded_up(wait_);
    return take(limit_, word_, now_ + wait_, ask).verdict == Verdict::admitted &&
           take(limit_, word_, now_ + wait_ - 1, ask).verdict != Verdict::admitted &&
           take(limit_, word_, now_ + wait_ns * kTicksPerNs, ask).verdict == Verdict::admitted &&
           take(limit_, word_, now_ + (wait_ns - 1) * kTicksPerNs, ask).verdict !=
               Verdict::admitted;
  }

  [[nodiscard]] bool numbers(std::uint8_t priority) const {
    const std::uint64_t reserve = limit_.reserve[priority];
    const std::uint64_t there = rounded_.tokens() > reserve ? rounded_.tokens() - reserve : 0;
    return remaining(limit_, word_, now_, priority) == there && there <= limit_.burst &&
           reset_after(word_, now_) == rounded_.ticks_until_full();
  }

  VerdictCounts& seen_;
  TokenBucket limit_;
  ExactBucket rounded_;
  ExactBucket true_;
  Ticks latest_;
  Ticks now_ = 0;       // what is decided by
  Ticks drawn_by_ = 0;  // the latest of them that was admitted
  Word word_ = 0;
  Ticks wait_ = 0;
};

// Rates as they occur, rates at every edge, and rates with no reason at all.
Rate random_rate(Random& random) {
  Rate rate;
  switch (random.below(4)) {
    case 0:
      rate.period_ns = 1'000'000'000;
      break;
    case 1:
      rate.period_ns = random.one_in(2) ? kMaxPeriodNs : 1;
      break;
    default:
      rate.period_ns = random.magnitude(1, kMaxPeriodNs);
  }
  rate.count = static_cast<std::uint32_t>(
      random.one_in(8) ? 1 : random.magnitude(1, random.one_in(8) ? kMax32 : 1'000'000'000));
  rate.burst = static_cast<std::uint32_t>(
      random.one_in(8) ? 1 : random.magnitude(1, random.one_in(8) ? kMax32 : 100'000));
  return rate;
}

Ask random_ask(Random& random, const Trial& trial) {
  Ask ask;
  ask.priority = static_cast<std::uint8_t>(random.below(kPriorities));
  ask.partial = random.one_in(8);
  const std::uint32_t burst = trial.limit().burst;
  switch (random.below(8)) {
    case 0:
      ask.cost = burst;
      break;
    case 1:
      ask.cost = random.one_in(2) ? kMax32 : burst == kMax32 ? burst : burst + 1;
      break;
    case 2:
      ask.cost = std::max<std::uint32_t>(1, trial.left(ask.priority));
      break;
    case 3:
      ask.cost = static_cast<std::uint32_t>(random.between(1, burst));
      break;
    case 4:
      ask.cost = static_cast<std::uint32_t>(random.magnitude(1, burst));
      break;
    default:
      ask.cost = 1;
  }
  return ask;
}

Ticks random_pause(Random& random, const Trial& trial) {
  const Ticks token = trial.limit().per_token;
  switch (random.below(8)) {
    case 0:
      return trial.last_wait();
    case 1:
      return trial.last_wait() == 0 ? 0 : trial.last_wait() - 1;
    case 2:
      return token + random.below(3) - 1;
    case 3:
      return random.below(token) + 1;
    case 4:
      return random.one_in(16) ? 2 * trial.limit().tolerance : 1;
    default:
      return 0;
  }
}

}  // namespace

TEST_CASE("10 million random takes agree with exact rational buckets") {
  constexpr int kOperations = 10'000'000;
  constexpr int kPerTrial = 500;
  Random random;
  VerdictCounts seen;
  int usable = 0;
  while (usable < kOperations / kPerTrial) {
    const Rate rate = random_rate(random);
    auto limit = make_token_bucket(rate);
    if (!limit) continue;
    ++usable;
    if (random.one_in(2)) {
      for (std::uint8_t p = 0; p + 1 < kPriorities; ++p) {
        limit->reserve[p] = static_cast<std::uint32_t>(random.between(0, limit->burst));
      }
    }
    const Ticks start = random.one_in(4) ? kMaxNow - random.magnitude(1, kMaxNow - 1)
                                         : random.magnitude(kMinNow, kMaxNow);
    Trial trial(rate, *limit, start, seen);
    for (int i = 0; i < kPerTrial; ++i) {
      const Ask ask = random_ask(random, trial);
      if (!trial.step(ask)) {
        FAIL("operation ", i, " at ", trial.now(), ": cost ", ask.cost, " priority ",
             int{ask.priority}, " partial ", ask.partial, " of ", rate.count, " per ",
             rate.period_ns, " ns, burst ", rate.burst);
      }
      const Ticks pause = random_pause(random, trial);
      const bool is_old = random.one_in(4);
      trial.advance(pause, is_old ? random.magnitude(1, 2 * limit->tolerance) : 0);
    }
  }
  for (const Verdict verdict :
       {Verdict::admitted, Verdict::denied, Verdict::shed, Verdict::never}) {
    CHECK(seen[verdict] > kOperations / 50);
  }
}

TEST_CASE("a take of exactly the burst is admitted, one more is never") {
  const auto limit = make_token_bucket({kSecond, 1, 7}).value();
  CHECK(take(limit, 0, 1000, {.cost = 7}).verdict == Verdict::admitted);
  CHECK_FALSE(never_fits(limit, {.cost = 7}));
  CHECK(never_fits(limit, {.cost = 8}));
  CHECK(never_fits(limit, {.cost = kMax32}));
}

TEST_CASE("after an idle time there is the burst, not more") {
  const auto limit = make_token_bucket({1'000'000'000, 1, 10}).value();
  Word word = 0;
  Ticks now = kSecond;
  const auto drain = [&] {
    int count = 0;
    for (Step step = take(limit, word, now, {}); step.next != 0;
         step = take(limit, word, now, {})) {
      word = step.next;
      ++count;
    }
    return count;
  };
  CHECK(drain() == 10);
  now += kSecond * 17 / 2;
  CHECK(drain() == 8);
  now += 1000 * kSecond;
  CHECK(remaining(limit, word, now, 0) == 10);
  CHECK(drain() == 10);
}

TEST_CASE("high rates are not rounded up: 700 M/s, 1 M/s, 1001/s, 100/s") {
  for (const std::uint32_t rate : {700'000'000U, 1'000'000'000U, 1'000'001U, 1001U, 100U}) {
    const auto limit = make_token_bucket({1'000'000'000, rate, 1}).value();
    // Takers who come on every tick get at most the rate in a second.
    CHECK(kSecond / limit.per_token <= rate);
    CHECK(kSecond / limit.per_token >= rate - rate / 16);
  }
}

TEST_CASE("the largest burst and cost do not wrap") {
  const auto limit = make_token_bucket({1, kMax32, kMax32}).value();
  CHECK(limit.per_token == 1);
  const Step first = take(limit, 0, kMaxNow, {.cost = kMax32});
  CHECK(first.verdict == Verdict::admitted);
  CHECK(first.next == kMaxNow + kMax32);
  CHECK(take(limit, first.next, kMaxNow, {.cost = kMax32}).verdict == Verdict::denied);
  CHECK(retry_after(limit, first.next, kMaxNow, {.cost = kMax32}) == kMax32);
  CHECK(remaining(limit, first.next, kMaxNow, 0) == 0);
}

TEST_CASE("a word further ahead than the limit can reach is answered truthfully") {
  const auto limit = make_token_bucket({1'000'000'000, 1, 2}).value();
  const Ticks now = 100 * kSecond;
  const Word word = now + 3600 * kSecond;
  CHECK(take(limit, word, now, {}).verdict == Verdict::denied);
  CHECK(remaining(limit, word, now, 0) == 0);
  CHECK(retry_after(limit, word, now, {}) == 3599 * kSecond);
  CHECK(reset_after(word, now) == 3600 * kSecond);
  CHECK(take(limit, word, now + 3599 * kSecond, {}).verdict == Verdict::admitted);
  // The highest word there can be.
  constexpr Word kHighest = kMaxNow + kMaxHorizon;
  CHECK(take(limit, kHighest, kMinNow, {.cost = 2}).verdict == Verdict::denied);
  CHECK(retry_after(limit, kHighest, kMinNow, {.cost = 2}) == kHighest - kMinNow);
}

TEST_CASE("the stale-word rule lowers only what the limit cannot have written") {
  const auto limit = make_token_bucket({1'000'000'000, 1, 60}).value();
  const Ticks now = 100 * kSecond;
  constexpr Ticks kSlack = 1000;
  const Word ceiling = now + 60 * kSecond;
  CHECK(lowered_stale_word(limit, limit.tolerance, 0, now, kSlack) == 0);
  CHECK(lowered_stale_word(limit, limit.tolerance, ceiling, now, kSlack) == 0);
  CHECK(lowered_stale_word(limit, limit.tolerance, ceiling + kSlack, now, kSlack) == 0);
  CHECK(lowered_stale_word(limit, limit.tolerance, ceiling + kSlack + 1, now, kSlack) == ceiling);
  CHECK(lowered_stale_word(limit, limit.tolerance, now + 3600 * kSecond, now, kSlack) == ceiling);
}

TEST_CASE("reset forgets debt and leaves an idle word alone") {
  CHECK(reset(0, 100) == 0);
  CHECK(reset(99, 100) == 0);
  CHECK(reset(100, 100) == 0);
  CHECK(reset(101, 100) == 100);
}

TEST_CASE("a partial ask gets what there is, and waits for one token when there is none") {
  const auto limit = make_token_bucket({1'000'000'000, 1, 5}).value();
  const Ticks now = 100 * kSecond;
  const Ask ask{.cost = 9, .priority = 0, .partial = true};
  const Step all = take(limit, now + 2 * kSecond, now, ask);
  CHECK(all.verdict == Verdict::admitted);
  CHECK(all.granted == 3);
  CHECK(all.next == now + 5 * kSecond);
  CHECK(take(limit, all.next, now, ask).verdict == Verdict::denied);
  CHECK(retry_after(limit, all.next, now, ask) == kSecond);
}

TEST_CASE("a reserve is kept from the priorities below it") {
  auto limit = make_token_bucket({1'000'000'000, 1, 10}).value();
  limit.reserve = {4, 2, 0, 0};
  const Ticks now = 100 * kSecond;
  CHECK(never_fits(limit, {.cost = 7, .priority = 0}));
  CHECK_FALSE(never_fits(limit, {.cost = 6, .priority = 0}));
  const Word word = take(limit, 0, now, {.cost = 6, .priority = 0}).next;
  CHECK(remaining(limit, word, now, 0) == 0);
  CHECK(remaining(limit, word, now, 1) == 2);
  CHECK(remaining(limit, word, now, 3) == 4);
  CHECK(take(limit, word, now, {.cost = 1, .priority = 0}).verdict == Verdict::shed);
  CHECK(take(limit, word, now, {.cost = 3, .priority = 1}).verdict == Verdict::shed);
  CHECK(take(limit, word, now, {.cost = 5, .priority = 1}).verdict == Verdict::denied);
  CHECK(take(limit, word, now, {.cost = 4, .priority = 3}).verdict == Verdict::admitted);
}
