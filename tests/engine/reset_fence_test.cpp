// What was taken before a RESET is not given back after it: under every kind of policy through the
// engine, with the RESET on another worker; then a take that is settled, against a RESET and takes
// that bring the word back to what it was, in every order of their steps; then the fence raced.
#include "server/engine/reset_fence.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "server/engine/layers.hpp"
#include "server/engine/rate.hpp"
#include "tests/engine/limits_fixture.hpp"
#include "tests/engine/map_store.hpp"
#include "tests/support/interleavings.hpp"

using namespace pail::engine;
using namespace pail::test;

TEST_CASE("a grant from before a RESET gives nothing back, whoever did the RESET") {
  for (const std::uint32_t policy : {kFixed, kSliding, kBudget, kDaily, kMonthly}) {
    CAPTURE(policy);
    LimitsFixture ask;
    const auto admin = ask.enroll();
    const std::uint32_t most = ask.left(policy, "k");
    Decision decision;
    Receipt receipt;
    ask.worker->take_to_settle(take("k", policy, most / 2), ask.now, decision, receipt);
    REQUIRE(decision.granted == most / 2);
    decide(*admin, with(Action::reset, take("k", policy, 0)), ask.now);
    CHECK(ask(take("k", policy, most)).verdict == Verdict::admitted);
    ask.worker->settle(take("k", policy, 0), receipt, ask.now, decision);
    CHECK(decision.granted == most / 2);
    CHECK(decision.remaining == 0);
    CHECK(ask(take("k", policy)).verdict == Verdict::denied);

    // One from after it does.
    decide(*admin, with(Action::reset, take("k", policy, 0)), ask.now);
    ask.worker->take_to_settle(take("k", policy, most), ask.now, decision, receipt);
    ask.worker->settle(take("k", policy, 1), receipt, ask.now, decision);
    CHECK(decision.remaining == most - 1);
  }
}

TEST_CASE("permits from before a RESET are nobody's: not released, not renewed") {
  for (const Ticks later : {Ticks{0}, 10 * kSecond}) {
    LimitsFixture ask;
    Decision decision;
    Grant old;
    Grant grant;
    ask.worker->acquire(take("k", kPermits, 4), ask.now, decision, old);
    ask(with(Action::reset, take("k", kPermits, 0)));
    ask.worker->acquire(take("k", kPermits, 10), ask.now, decision, grant);
    REQUIRE(decision.verdict == Verdict::admitted);
    ask.now += later;
    ask.worker->renew(take("k", kPermits, 4), ask.now, decision, old);
    CHECK(decision.verdict == Verdict::denied);
    ask.worker->release(take("k", kPermits, 4), old.id, ask.now, decision);
    CHECK(decision.granted == 0);
    CHECK(ask.left(kPermits, "k") == 0);
    ask.worker->renew(take("k", kPermits, 10), ask.now, decision, grant);
    CHECK(decision.verdict == Verdict::admitted);
    ask.worker->release(take("k", kPermits, 10), grant.id, ask.now, decision);
    CHECK(decision.granted == 10);
  }
}

namespace {

// Others may come between the reading of a word and its replacement, and before each look at the
// fence.
class SteppedStore {
 public:
  SteppedStore(MapStore& store, Interleavings& orders) : store_(store), orders_(orders) {}
  template <class Decide>
  Outcome update(KeyHash hash, Access access, Ticks now, Decide&& decide) {
    for (;;) {
      orders_.step();
      const Word seen = store_.word(hash);
      const std::optional<Word> next = decide(seen, now);
      if (!next) return Outcome::unchanged;
      orders_.step();
      if (store_.word(hash) != seen) continue;
      return store_.update(hash, access, now, [&](Word, Ticks) { return next; });
    }
  }
  Ticks fresh(Ticks at) const { return store_.fresh(at); }
  ResetFence& fence() {
    orders_.step();
    return store_.fence();
  }

 private:
  MapStore& store_;
  Interleavings& orders_;
};

const UtcEpoch kEpoch{1'767'225'600, 0};
constexpr KeyHash kKey{1, 1};

// Whether the RESET was granted.
template <class Store>
bool reset_key(Store& store, Ticks now) {
  const ResetFence::Reset fence(store.fence(), kKey);
  if (!fence.is_granted()) return false;
  static_cast<void>(
      store.update(kKey, Access::find, now, [](Word word, Ticks at) -> std::optional<Word> {
        const Word next = reset(word, at);
        if (next == 0) return std::nullopt;
        return next;
      }));
  return true;
}

}  // namespace

TEST_CASE("a take that is settled, a RESET, and takes up to the same word, in every order") {
  Limit bucket;
  bucket.queue.bucket = make_token_bucket({86'400'000'000'000, 1, 2}).value();
  Limit window;
  window.algorithm = Algorithm::fixed_window;
  window.counted.most = 2;
  window.rule = WindowRule::every(3600);
  constexpr Ask kOne{.cost = 1};
  for (const Limit& limit : {bucket, window}) {
    MapStore store;
    Interleavings orders;
    bool is_reset = false;
    std::uint32_t since = 0;  // taken after the RESET, and not given back
    std::size_t given_back = 0;
    std::size_t refused = 0;
    // The first takes one and gives it back; the second takes what it can after a RESET.
    const auto take_and_give = [&] {
      SteppedStore stepped(store, orders);
      const Ticks now = store.true_now;
      const std::uint32_t resets = stepped.fence().finished(kKey);
      const Judgement taken = judge(stepped, limit, kEpoch, kKey, kOne, now, Mode::take);
      if (taken.verdict != Verdict::admitted) return;
      const Receipt receipt{
          .entry = taken.entry, .at = taken.at, .tokens = 1, .mark = taken.mark, .resets = resets};
      given_back += give_back(stepped, limit, receipt, 1, now);
    };
    const auto reset_and_take = [&] {
      SteppedStore stepped(store, orders);
      const Ticks now = store.true_now;
      is_reset = reset_key(stepped, now);
      for (int i = 0; i < 2; ++i) {
        since += judge(stepped, limit, kEpoch, kKey, kOne, now, Mode::take).granted;
      }
    };
    const std::size_t count = orders.explore(
        [&] {
          store = {};
          store.true_now = 1000 * kSecond;
          is_reset = false;
          since = 0;
          return std::vector<Interleavings::Task>{take_and_give, reset_and_take};
        },
        [&] {
          refused += !is_reset;
          Ask rest{.cost = 1};
          while (judge(store, limit, kEpoch, kKey, rest, store.true_now, Mode::take).granted != 0) {
            ++since;
          }
          CHECK(since <= 2);
        });
    CHECK(count > 100);
    CHECK(given_back > count / 100);
    CHECK(refused > 0);
    CHECK(refused < count / 4);
  }
}

// The layer that is RESET is taken from first, by the hash; the other one has a token for one.
TEST_CASE("several limits, a RESET of one and a race for the other, in every order: all or none") {
  Limit bucket;
  bucket.queue.bucket = make_token_bucket({86'400'000'000'000, 1, 1}).value();
  Limit window;
  window.algorithm = Algorithm::fixed_window;
  window.counted.most = 1;
  window.rule = WindowRule::every(3600);
  constexpr KeyHash kScarceKey{2, 2};
  constexpr Ask kOne{.cost = 1};
  for (const Limit& limit : {bucket, window}) {
    MapStore store;
    Interleavings orders;
    bool is_all = false;
    bool is_other = false;
    bool is_reset = false;
    std::uint32_t since = 0;  // taken of the layer that is RESET by the other
    std::size_t lost = 0;
    std::size_t waited = 0;
    const auto take_both = [&] {
      SteppedStore stepped(store, orders);
      const std::array<PlannedLayer, 2> layers{PlannedLayer{&limit, kKey, 1},
                                               PlannedLayer{&bucket, kScarceKey, 1}};
      is_all = take_layers(stepped, kEpoch, layers, 0, store.true_now).refusing == kNoLayer;
    };
    const auto reset_and_race = [&] {
      SteppedStore stepped(store, orders);
      const Ticks now = store.true_now;
      is_reset = reset_key(stepped, now);
      since = judge(stepped, limit, kEpoch, kKey, kOne, now, Mode::take).granted;
      is_other = judge(stepped, bucket, kEpoch, kScarceKey, kOne, now, Mode::take).granted == 1;
    };
    const std::size_t count = orders.explore(
        [&] {
          store = {};
          store.true_now = 1000 * kSecond;
          return std::vector<Interleavings::Task>{take_both, reset_and_race};
        },
        [&] {
          lost += !is_all;
          waited += !is_reset;
          CHECK(is_all != is_other);
          if (is_all) return;
          since += judge(store, limit, kEpoch, kKey, kOne, store.true_now, Mode::take).granted;
          since += judge(store, limit, kEpoch, kKey, kOne, store.true_now, Mode::take).granted;
          CHECK(since == 1);  // what was taken from it for nothing is back, and once
        });
    CHECK(count > 100);
    CHECK(lost > count / 100);
    CHECK(waited > 0);
  }
}

TEST_CASE("raced: no RESET is under way while something is given back") {
  ResetFence fence;
  std::atomic<int> refunding{0};
  std::atomic<bool> is_resetting{false};
  std::atomic<int> faults{0};
  std::atomic<int> resets{0};
  std::latch start(3);
  const auto refund = [&] {
    start.arrive_and_wait();
    for (int i = 0; i < 100'000; ++i) {
      const std::uint32_t noted = fence.finished(kKey);
      const ResetFence::Refund scope(fence, kKey);
      if (scope.resets() != noted) continue;
      refunding.fetch_add(1);
      if (is_resetting.load()) faults.fetch_add(1);
      refunding.fetch_sub(1);
    }
  };
  const auto hold = [&] {
    start.arrive_and_wait();
    for (int i = 0; i < 100'000; ++i) {
      const ResetFence::Hold scope(fence, kKey);
      if (!scope.is_calm()) continue;
      refunding.fetch_add(1);
      if (is_resetting.load()) faults.fetch_add(1);
      refunding.fetch_sub(1);
    }
  };
  std::thread first(refund);
  std::thread second(hold);
  start.arrive_and_wait();
  for (int i = 0; i < 10'000; ++i) {
    const ResetFence::Reset scope(fence, kKey);
    if (!scope.is_granted()) continue;
    is_resetting.store(true);
    if (refunding.load() != 0) faults.fetch_add(1);
    is_resetting.store(false);
    resets.fetch_add(1);
  }
  first.join();
  second.join();
  CHECK(faults.load() == 0);
  CHECK(resets.load() > 0);
}
