// The queue, against a level of tokens that may go below zero, and against an exact bucket that is
// drawn from at the moments of release: 10 million random operations, a quarter of them by an old
// reading of the clock. And giving back, against the same level.
#include "server/engine/leaky_bucket.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "server/engine/rate.hpp"
#include "server/engine/refund.hpp"
#include "tests/engine/bucket_model.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using pail::test::ExactBucket;
using pail::test::Random;

namespace {

constexpr Ticks kSecond = ticks_from_ns(1'000'000'000);

// Tokens in ticks of refill, in plain signed numbers, as they were when they were last changed.
class Level {
 public:
  __extension__ using Signed = __int128;
  explicit Level(const LeakyBucket& limit)
      : limit_(limit), full_(limit.bucket.tolerance), level_(full_) {}

  // By which reading all else is asked and done.
  void look_at(Ticks now) { now_ = now; }
  [[nodiscard]] Signed after(std::uint32_t cost) const {
    return level() - Signed{cost} * limit_.bucket.per_token;
  }
  [[nodiscard]] Signed floor_of(std::uint8_t priority) const {
    return Signed{limit_.bucket.reserve[priority]} * limit_.bucket.per_token - limit_.max_wait;
  }
  [[nodiscard]] bool fits(std::uint32_t cost, std::uint8_t priority) const {
    return after(cost) >= floor_of(priority);
  }
  [[nodiscard]] Ticks hold_after(std::uint32_t cost) const {
    return after(cost) < 0 ? static_cast<Ticks>(-after(cost)) : 0;
  }
  void draw(std::uint32_t cost) {
    settle_down();
    level_ -= Signed{cost} * limit_.bucket.per_token;
  }
  void give_back(std::uint32_t tokens, Ticks elapsed) {
    const Signed back = Signed{tokens} * limit_.bucket.per_token - Signed{elapsed};
    if (level() < 0 || level() == full_ || back <= 0) return;
    settle_down();
    level_ = std::min(full_, level_ + back);
  }
  [[nodiscard]] std::uint64_t whole() const {
    return level() <= 0 ? 0 : static_cast<std::uint64_t>(level() / limit_.bucket.per_token);
  }

 private:
  [[nodiscard]] Signed level() const {
    return std::min<Signed>(full_, level_ + Signed{now_} - Signed{changed_at_});
  }
  void settle_down() {
    if (now_ <= changed_at_) return;
    level_ = level();
    changed_at_ = now_;
  }

  LeakyBucket limit_;
  Signed full_;
  Signed level_;
  Ticks changed_at_ = 0;
  Ticks now_ = 0;
};

std::optional<LeakyBucket> random_limit(Random& random) {
  Rate rate;
  rate.period_ns = random.magnitude(1, 10'000'000'000);
  rate.count = static_cast<std::uint32_t>(random.magnitude(1, 100'000));
  rate.burst = static_cast<std::uint32_t>(random.magnitude(1, 1000));
  const auto bucket = make_token_bucket(rate);
  if (!bucket) return {};
  LeakyBucket limit{*bucket, 0};
  if (!random.one_in(4)) limit.max_wait = random.magnitude(1, 20 * bucket->tolerance);
  if (random.one_in(2)) {
    for (auto& reserve : limit.bucket.reserve) {
      reserve = static_cast<std::uint32_t>(random.between(0, rate.burst));
    }
  }
  return limit;
}

Ask random_ask(Random& random, const LeakyBucket& limit) {
  Ask ask;
  ask.priority = static_cast<std::uint8_t>(random.below(kPriorities));
  ask.partial = random.one_in(8);
  ask.cost =
      random.one_in(2) ? 1 : static_cast<std::uint32_t>(random.between(1, limit.bucket.burst));
  return ask;
}

struct Charge {
  Ticks at = 0;
  std::uint32_t tokens = 0;
};

// False at the first difference.
bool run(const LeakyBucket& limit, Random& random, int operations) {
  Ticks latest = random.magnitude(kMinNow, kMaxNow - kMaxHorizon);
  Word word = 0;
  Level level(limit);
  ExactBucket released(1, limit.bucket.per_token, limit.bucket.burst);
  bool has_given_back = false;
  Charge last;
  for (int i = 0; i < operations; ++i) {
    const Ask ask = random_ask(random, limit);
    if (never_fits(limit.bucket, ask)) continue;
    const Ticks age = random.one_in(4) ? random.magnitude(1, 2 * limit.bucket.tolerance) : 0;
    const Ticks now = latest - std::min(age, latest - kMinNow);
    level.look_at(now);
    const std::uint32_t reserve = limit.bucket.reserve[ask.priority];
    const std::uint64_t there = level.whole() > reserve ? level.whole() - reserve : 0;
    const auto cost = static_cast<std::uint32_t>(
        ask.partial ? std::clamp<std::uint64_t>(there, 1, ask.cost) : ask.cost);
    const Step step = take(limit, word, now, ask);
    if (level.fits(cost, ask.priority)) {
      if (step.verdict != Verdict::admitted || step.granted != cost) return false;
      if (hold(limit, step.next, now) != level.hold_after(cost)) return false;
      if (!has_given_back) {  // a bucket that gives back has another bound
        released.look_at(now + hold(limit, step.next, now));
        if (!released.has(cost)) return false;
        released.draw(cost);
      }
      level.draw(cost);
      word = step.next;
      last = {now, cost};
    } else {
      const bool is_shed = level.after(cost) >= -Level::Signed{limit.max_wait};
      if (step.verdict != (is_shed ? Verdict::shed : Verdict::denied)) return false;
      const Ticks wait = retry_after(limit, word, now, ask);
      if (wait == 0 || take(limit, word, now + wait, ask).verdict != Verdict::admitted ||
          take(limit, word, now + wait - 1, ask).verdict == Verdict::admitted) {
        return false;
      }
    }
    if (remaining(limit.bucket, word, now, 0) !=
        (level.whole() > limit.bucket.reserve[0] ? level.whole() - limit.bucket.reserve[0] : 0)) {
      return false;
    }
    if (last.tokens != 0 && random.one_in(16)) {  // always by the latest reading
      const auto tokens = static_cast<std::uint32_t>(random.between(1, last.tokens));
      const Word next = refunded(limit.bucket, word, latest, tokens, latest - last.at);
      if (next != 0 && (next > word || next < latest)) return false;
      level.look_at(latest);
      level.give_back(tokens, latest - last.at);
      if (next != 0) word = next;
      last.tokens -= tokens;
      has_given_back = true;
    }
    if (random.one_in(4)) latest += random.magnitude(1, 2 * limit.bucket.per_token);
    if (random.one_in(64)) latest += random.magnitude(1, 2 * limit.bucket.tolerance);
  }
  return true;
}

}  // namespace

TEST_CASE("10 million random asks of queues agree with a level that may be below zero") {
  constexpr int kPerTrial = 500;
  Random random(21);
  for (int done = 0; done < pail::test::operations(10'000'000);) {
    const auto limit = random_limit(random);
    if (!limit) continue;
    done += kPerTrial;
    if (!run(*limit, random, kPerTrial)) {
      FAIL("T ", limit->bucket.per_token, " burst ", limit->bucket.burst, " max_wait ",
           limit->max_wait);
    }
  }
}

TEST_CASE("a queue of 10/s releases one every 100 ms, and refuses what would wait too long") {
  const LeakyBucket limit{make_token_bucket({1'000'000'000, 10, 1}).value(), kSecond / 2};
  const Ticks now = 100 * kSecond;
  Word word = 0;
  for (Ticks turn = 0; turn <= 5; ++turn) {
    const Step step = take(limit, word, now, {});
    REQUIRE(step.verdict == Verdict::admitted);
    CHECK(hold(limit, step.next, now) == turn * kSecond / 10);
    word = step.next;
  }
  CHECK(take(limit, word, now, {}).verdict == Verdict::denied);
  CHECK(retry_after(limit, word, now, {}) == kSecond / 10);
}

TEST_CASE("10 tokens taken at 100/s and given back after 50 ms: 5 come back, singly none") {
  const TokenBucket limit = make_token_bucket({1'000'000'000, 100, 100}).value();
  const Ticks then = 100 * kSecond;
  const Ticks now = then + kSecond / 20;
  const Word before = take(limit, 0, then, {.cost = 60}).next;
  const Word word = take(limit, before, then, {.cost = 10}).next;
  const Word next = refunded(limit, word, now, 10, now - then);
  CHECK(tokens_given_back(limit, word, next) == 5);
  for (int i = 0; i < 10; ++i) CHECK(refunded(limit, word, now, 1, now - then) == 0);
}

TEST_CASE("nothing is given back behind waiters, and never past full") {
  const TokenBucket limit = make_token_bucket({1'000'000'000, 1, 10}).value();
  const Ticks now = 100 * kSecond;
  CHECK(refunded(limit, now + 10 * kSecond, now, 10, 0) == now);
  CHECK(refunded(limit, now + 10 * kSecond + 1, now, 10, 0) == 0);
  CHECK(refunded(limit, now + 3 * kSecond, now, 10, 0) == now);
  CHECK(refunded(limit, now, now, 10, 0) == 0);
  CHECK(refunded(limit, 0, now, 10, 0) == 0);
}

TEST_CASE("a settlement upwards overdraws by max_debt at most") {
  const TokenBucket limit = make_token_bucket({1'000'000'000, 1, 10}).value();
  const TokenBucket deep = overdrawable(limit, 5);
  const Ticks now = 100 * kSecond;
  const Ask ask{.cost = 100, .priority = 0, .partial = true};
  const Step step = take(deep, now + 8 * kSecond, now, ask);
  CHECK(step.granted == 7);
  CHECK(step.next == now + 15 * kSecond);
  CHECK(take(deep, step.next, now, ask).verdict == Verdict::denied);
  CHECK(retry_after(limit, step.next, now, {}) == 6 * kSecond);
}
