// Concern: the answer to SETTLE and RETURN tells what was charged and given back, to the token.
// Method: random takes and settlements of buckets of every speed, with the word before and after
// held against rational arithmetic: numerators of a denominator T, the ticks of a token.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "server/engine/judge.hpp"
#include "server/engine/policy_spec.hpp"
#include "tests/engine/limits_fixture.hpp"
#include "tests/engine/map_store.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

__extension__ using Ratio = __int128;  // of tokens, times T

constexpr UtcEpoch kNoEpoch{};
constexpr KeyHash kKey{7, 7};

Limit random_bucket(Random& random) {
  PolicySpec spec{"bucket", 1, {}};
  spec.rate.period_ns = random.magnitude(1000, 500'000'000'000);
  spec.rate.count = static_cast<std::uint32_t>(random.magnitude(1, 1000));
  spec.rate.burst = static_cast<std::uint32_t>(random.magnitude(1, 1000));
  spec.max_debt = static_cast<std::uint32_t>(random.below(100));
  return make_limit(spec);
}

class Settling {
 public:
  Settling(const Limit& limit, Random& random) : limit_(limit), random_(random) {
    store_.true_now = 1000 * kSecond;
  }

  void take() {
    Ask ask{.cost = static_cast<std::uint32_t>(random_.between(1, limit_.most()))};
    ask.partial = random_.one_in(2);
    const Judgement taken = judge(store_, limit_, kNoEpoch, kKey, ask, store_.true_now, Mode::take);
    if (taken.granted == 0) return;
    receipts_.push_back({.entry = taken.entry, .at = taken.at, .tokens = taken.granted});
  }

  void settle() {
    if (receipts_.empty()) return;
    const std::size_t index = random_.below(receipts_.size());
    const Receipt receipt = receipts_[index];
    receipts_.erase(receipts_.begin() + static_cast<std::ptrdiff_t>(index));
    const auto actual = static_cast<std::uint32_t>(random_.below(2 * receipt.tokens + 1));
    const Ticks now = store_.true_now;
    const Word before = store_.word(kKey);
    const std::uint32_t granted =
        pail::engine::settle(store_, limit_, kNoEpoch, kKey, receipt, actual, now).granted;
    const Word after = store_.word(kKey);

    const Ratio token = limit_.queue.bucket.per_token;
    if (actual > receipt.tokens) {
      const Ratio more = after == before ? 0 : Ratio{after} - std::max(before, now);
      CHECK(Ratio{granted} * token == receipt.tokens * token + more);
      CHECK(granted <= actual);
      return;
    }
    const Ratio charged = receipt.tokens * token - (Ratio{before} - after);
    CHECK(Ratio{granted} * token <= charged);
    CHECK(charged < (Ratio{granted} + 1) * token);
    // By what it is about: the time since has refilled a part of the rest.
    const Ratio rest = (receipt.tokens - actual) * token;
    const Ratio refilled = std::min<Ratio>(rest, now - receipt.at);
    const bool is_cut = before < now || before - now < rest - refilled ||
                        before - now > limit_.queue.bucket.tolerance;
    if (!is_cut) {
      CHECK(charged == actual * token + refilled);
      ++whole_;
      if (refilled < token) CHECK(granted == actual);
    }
  }

  void pass() {
    const TokenBucket& bucket = limit_.queue.bucket;
    store_.true_now += random_.one_in(4) ? random_.below(bucket.tolerance + 1)
                                         : random_.magnitude(1, 2 * bucket.per_token);
  }

  [[nodiscard]] int whole() const { return whole_; }

 private:
  const Limit& limit_;
  Random& random_;
  MapStore store_;
  std::vector<Receipt> receipts_;
  int whole_ = 0;  // settlements downwards that nothing cut short
};

}  // namespace

TEST_CASE("what a settlement reports is what it charged, in rational arithmetic") {
  Random random(22);
  constexpr int kPerTrial = 1000;
  int whole = 0;
  for (int done = 0; done < operations(400'000); done += kPerTrial) {
    const Limit limit = random_bucket(random);
    CAPTURE(limit.queue.bucket.per_token);
    CAPTURE(limit.queue.bucket.burst);
    Settling settling(limit, random);
    for (int i = 0; i < kPerTrial; ++i) {
      random.one_in(2) ? settling.take() : settling.settle();
      if (!random.one_in(3)) settling.pass();
    }
    whole += settling.whole();
  }
  CHECK(whole > operations(400'000) / 100);
}

TEST_CASE("three of a slow bucket, settled to one a little later, are one") {
  LimitsFixture ask;
  for (const Ticks later : {Ticks{0}, Ticks{1}, kSecond - 1, kSecond}) {
    CAPTURE(later);
    Decision decision;
    Receipt receipt;
    ask.now += 100 * kSecond;
    ask.worker->take_to_settle(take("k", kBucket, 3), ask.now, decision, receipt);
    ask.now += later;
    ask.worker->settle(take("k", kBucket, 1), receipt, ask.now, decision);
    CHECK(decision.granted == (later < kSecond ? 1 : 2));  // 1/s: a second refills one
    ask.now += 100 * kSecond;
    ask.worker->take_to_settle(take("k", kBucket, 3), ask.now, decision, receipt);
    ask.now += later;
    ask.worker->give_back(take("k", kBucket, 2), receipt, ask.now, decision);
    CHECK(decision.granted == (later < kSecond ? 2 : 1));
  }
}
