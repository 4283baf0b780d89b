// Several limits at once: all are charged or none. The interleavings of two crossing requests are
// tried one by one; then four threads cross for real.
#include <doctest/doctest.h>

#include <atomic>
#include <latch>
#include <string>
#include <thread>

#include "server/engine/layers.hpp"
#include "server/engine/rate.hpp"
#include "tests/engine/limits_fixture.hpp"
#include "tests/engine/map_store.hpp"
#include "tests/support/interleavings.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

TEST_CASE("all layers are charged, and the answer is the tightest's") {
  LimitsFixture ask;
  const auto all =
      ask.take_all({layer(kFixed, "k", 3), layer(kSliding, "k", 30), layer(kQueue, "k")});
  CHECK(all.decision.verdict == Verdict::admitted);
  CHECK(all.layer == kNoLayer);
  CHECK(all.decision.remaining == 0);
  CHECK(all.decision.limit == 1);
  CHECK(all.layers[0].remaining == 7);
  CHECK(all.layers[1].remaining == 70);
  CHECK(all.layers[1].limit == 100);
  CHECK(all.decision.reset_ns == all.layers[1].reset_ns);
  CHECK(ask.left(kFixed, "k") == 7);
}

TEST_CASE("second layer exhausted, 10,000 times: the first one's remaining has not moved") {
  LimitsFixture ask;
  CHECK(ask(take("k", kScarce)).verdict == Verdict::admitted);
  for (const std::uint32_t first : {kBucket, kQueue, kFixed, kSliding, kDaily}) {
    const std::uint32_t before = ask.left(first, "k");
    for (int i = 0; i < 10'000; ++i) {
      const auto all = ask.take_all({layer(first, "k"), layer(kScarce, "k")});
      if (all.decision.verdict != Verdict::denied || all.layer != 1) FAIL("layer ", int{all.layer});
    }
    CHECK(ask.left(first, "k") == before);
  }
}

TEST_CASE("the answer names the layer to wait for longest, and never above all") {
  LimitsFixture ask;
  ask(take("k", kFixed, 10));
  ask(take("k", kScarce));
  auto all = ask.take_all({layer(kFixed, "k"), layer(kScarce, "k"), layer(kSliding, "k")});
  CHECK(all.layer == 1);
  CHECK(all.decision.wait_ns == 86'400'000'000'000);
  CHECK(all.layers[2].remaining == 100);  // refused, so as it is
  all = ask.take_all({layer(kScarce, "k"), layer(kFixed, "other", 11)});
  CHECK(all.layer == 1);
  CHECK(all.decision.verdict == Verdict::never);
  CHECK(all.decision.wait_ns == kWaitForever);
}

TEST_CASE("what is granted in all does not wrap") {
  PolicySpec spec;
  spec.name = "huge";
  spec.id = 1;
  spec.rate = {1'000'000'000, UINT32_MAX, UINT32_MAX};
  Engine engine({.policies = {spec}});
  const auto worker = engine.enroll();
  LayersDecision all;
  const std::array<Layer, 2> layers{layer(1, "a", UINT32_MAX), layer(1, "b", 2)};
  worker->take_all(layers, 0, kStart, all);
  CHECK(all.decision.verdict == Verdict::admitted);
  CHECK(all.decision.granted == UINT32_MAX);
}

TEST_CASE("layers that cannot be are refused, and charge nothing") {
  LimitsFixture ask;
  const auto refused = [&](const std::vector<Layer>& layers, Verdict verdict, int which) {
    const auto all = ask.take_all(layers);
    CHECK(all.decision.verdict == verdict);
    CHECK(int{all.layer} == which);
  };
  refused({}, Verdict::bad_request, kNoLayer);
  refused(std::vector<Layer>(9, layer(kFixed, "k")), Verdict::bad_request, kNoLayer);
  refused({layer(kFixed, "k"), layer(kSliding, "k"), layer(kFixed, "k", 2)}, Verdict::bad_request,
          2);
  refused({layer(kFixed, "k"), layer(77, "k")}, Verdict::unknown_policy, 1);
  refused({layer(kFixed, "k"), layer(kSliding, "k", 0)}, Verdict::bad_request, 1);
  refused({layer(kFixed, "k"), layer(kSliding, "")}, Verdict::bad_request, 1);
  refused({layer(kFixed, "k"), layer(kPermits, "k")}, Verdict::bad_request, 1);
  CHECK(ask.left(kFixed, "k") == 10);
  CHECK(ask.take_all({layer(kFixed, "a"), layer(kFixed, "b")}).decision.verdict ==
        Verdict::admitted);
}

namespace {

class SteppedStore {
 public:
  SteppedStore(MapStore& store, Interleavings& orders) : store_(store), orders_(orders) {}
  template <class Decide>
  Outcome update(KeyHash hash, Access access, Ticks now, Decide&& decide) {
    orders_.step();
    return store_.update(hash, access, now, decide);
  }
  Ticks fresh(Ticks at) const { return store_.fresh(at); }
  ResetFence& fence() const { return store_.fence(); }

 private:
  MapStore& store_;
  Interleavings& orders_;
};

const UtcEpoch kEpoch{1'767'225'600, 0};

}  // namespace

TEST_CASE("two crossing requests for the last of two budgets, in every order: exactly one wins") {
  Limit scarce;
  scarce.queue.bucket = make_token_bucket({86'400'000'000'000, 1, 1}).value();
  Limit window;
  window.algorithm = Algorithm::fixed_window;
  window.counted.most = 1;
  window.rule = WindowRule::every(3600);
  for (const Limit& second : {scarce, window}) {
    const PlannedLayer a{&scarce, {1, 1}, 1};
    const PlannedLayer b{&second, {2, 2}, 1};
    MapStore store;
    Interleavings orders;
    int admitted = 0;
    const auto cross = [&](std::array<PlannedLayer, 2> layers) {
      SteppedStore stepped(store, orders);
      const auto judged = take_layers(stepped, kEpoch, layers, 0, store.true_now);
      admitted += judged.refusing == kNoLayer;
    };
    const std::size_t count = orders.explore(
        [&] {
          store = {};
          store.true_now = 1000 * kSecond;
          admitted = 0;
          return std::vector<Interleavings::Task>{[&] { cross({a, b}); }, [&] { cross({b, a}); }};
        },
        [&] { CHECK(admitted == 1); });
    CHECK(count >= 20);
  }
}

// What a give-back with the clock reading of the take would mint: the token is refilled while the
// loser is held up, taken by somebody else, and given back once more.
TEST_CASE("what is given back late has been refilled meanwhile") {
  Limit refilled;
  refilled.queue.bucket = make_token_bucket({1'000'000'000, 1, 2}).value();
  MapStore store;
  store.true_now = 1000 * kSecond;
  const auto take_one = [&] {
    return judge(store, refilled, kEpoch, {1, 1}, {}, store.true_now, Mode::take);
  };
  const Judgement taken = take_one();
  const Ticks then = store.true_now;
  store.true_now += kSecond;
  CHECK(take_one().verdict == Verdict::admitted);
  const Receipt receipt{.entry = taken.entry, .at = taken.at, .tokens = 1};
  CHECK(give_back(store, refilled, receipt, 1, then) == 0);
  CHECK(take_one().verdict == Verdict::admitted);
  CHECK(take_one().verdict == Verdict::denied);
}

TEST_CASE("four threads cross over shared budgets: none is exceeded, and what is left can be had") {
  constexpr std::size_t kThreads = 4;
  for (int repeat = 0; repeat < 10; ++repeat) {
    LimitsFixture ask;
    std::vector<std::array<std::uint64_t, 4>> granted(kThreads);
    const std::array<std::uint32_t, 4> policies{kDaily, kSliding, kFixed, kBudget};
    const std::array<std::uint32_t, 4> budgets{1000, 100, 10, 100};
    std::latch start(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        const auto worker = ask.enroll();
        Random random(40 + t);
        start.arrive_and_wait();
        for (int i = 0; i < 2000; ++i) {
          std::vector<Layer> layers;
          std::vector<std::size_t> which;
          for (std::size_t p = 0; p < 4; ++p) {
            if (!random.one_in(3)) which.push_back(p);
          }
          for (std::size_t n = which.size(); n > 1; --n) {
            std::swap(which[n - 1], which[random.below(n)]);
          }
          for (const std::size_t p : which) layers.push_back(layer(policies[p], "shared"));
          if (layers.empty()) continue;
          LayersDecision decision;
          worker->take_all(layers, 0, ask.now, decision);
          if (decision.decision.verdict != Verdict::admitted) continue;
          for (const std::size_t p : which) ++granted[t][p];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t p = 0; p < 4; ++p) {
      std::uint64_t sum = 0;
      for (const auto& part : granted) sum += part[p];
      CHECK(sum <= budgets[p]);
      // Nothing was lost: what was not granted is still there.
      CHECK(ask.left(policies[p], "shared") == budgets[p] - sum);
    }
  }
}

// In each round fresh keys with a token each, and a thread for each order of the layers.
TEST_CASE("four threads cross for the last of the same budgets, again and again: one always wins") {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kRounds = 2'000;
  LimitsFixture ask;
  std::vector<std::atomic<int>> admitted(kRounds);
  std::atomic<std::size_t> arrived{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto worker = ask.enroll();
      for (std::size_t round = 0; round < kRounds; ++round) {
        const std::string a = "a" + std::to_string(round);
        const std::string b = "b" + std::to_string(round);
        std::vector<Layer> layers{layer(kScarce, a), layer(kScarce, b)};
        if (t % 2 != 0) std::swap(layers[0], layers[1]);
        arrived.fetch_add(1);
        while (arrived.load() < kThreads * (round + 1)) {
          std::this_thread::yield();
        }
        LayersDecision decision;
        worker->take_all(layers, 0, ask.now, decision);
        if (decision.decision.verdict == Verdict::admitted) admitted[round].fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t round = 0; round < kRounds; ++round) CHECK(admitted[round].load() == 1);
}
