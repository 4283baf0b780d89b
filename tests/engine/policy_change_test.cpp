// Policies that change while keys are in use: what a change grants, what it never does, and who is
// refused no longer than the new policy could. Then what is the same for none: overrides, and
// policies that are not enforced.
#include <doctest/doctest.h>

#include <thread>

#include "tests/engine/limits_fixture.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kMinuteNs = 60 * kSecondNs;
constexpr std::uint32_t kApi = 77;
constexpr std::uint32_t kOther = 78;
constexpr std::uint32_t kGold = 79;

PolicySpec bucket(std::uint32_t id, Rate rate) {
  PolicySpec spec;
  spec.name = "p" + std::to_string(id);
  spec.id = id;
  spec.rate = rate;
  return spec;
}

// One worker, a clock that the test holds, and policies that it changes.
struct Changing {
  explicit Changing(std::vector<PolicySpec> first) : engine({.policies = std::move(first)}) {}

  void change(std::vector<PolicySpec> specs, std::vector<OverrideSpec> overrides = {}) {
    const auto version = engine.replace_policies(specs, overrides);
    if (!version) FAIL(version.error());
    static_cast<void>(worker->end_turn(now));
  }
  Decision operator()(const Request& request) { return decide(*worker, request, now); }
  Decision peek(std::string_view key, std::uint32_t policy, std::uint32_t cost = 0) {
    return (*this)(with(Action::peek, take(key, policy, cost)));
  }
  std::uint32_t drain(std::string_view key, std::uint32_t policy) {
    std::uint32_t taken = 0;
    while ((*this)(take(key, policy)).verdict == Verdict::admitted) ++taken;
    return taken;
  }

  Ticks now = 600 * kSecond;
  Engine engine;
  std::unique_ptr<Worker> worker = engine.enroll(
      {[](const void* self) noexcept { return static_cast<const Changing*>(self)->now; }, this});
};

}  // namespace

TEST_CASE("a drained 1/min raised to 60/min admits after a second, not before") {
  Changing ask({bucket(kApi, {kMinuteNs, 1, 1})});
  CHECK(ask.drain("k", kApi) == 1);
  CHECK(ask(take("k", kApi)).wait_ns == kMinuteNs);
  ask.change({bucket(kApi, {kMinuteNs, 60, 1})});
  CHECK(ask.peek("k", kApi).reset_ns == kSecondNs);
  CHECK(ask(take("k", kApi)).wait_ns == kSecondNs);
  ask.now += kSecond - 1;
  CHECK(ask(take("k", kApi)).verdict == Verdict::denied);
  ask.now += 1;
  CHECK(ask(take("k", kApi)).verdict == Verdict::admitted);
}

TEST_CASE("a drained 100/s lowered to 1/s grants one new burst at most") {
  for (const std::uint32_t burst : {1u, 5u, 100u, 500u}) {
    CAPTURE(burst);
    Changing ask({bucket(kApi, {kSecondNs, 100, 100})});
    CHECK(ask.drain("k", kApi) == 100);
    ask.change({bucket(kApi, {kSecondNs, 1, burst})});
    CHECK(ask.drain("k", kApi) <= burst);
    ask.now += 5 * kSecond;
    CHECK(ask.drain("k", kApi) <= 5);
  }
}

TEST_CASE(
    "whatever changes: one new burst each time, and no longer refused than the new one could") {
  pail::test::Random random(91);
  for (int round = 0; round < 200; ++round) {
    const auto any_rate = [&] {
      constexpr std::uint64_t kPeriods[] = {1'000'000, kSecondNs, kMinuteNs, 60 * kMinuteNs};
      return Rate{kPeriods[random.below(4)], static_cast<std::uint32_t>(1 + random.below(50)),
                  static_cast<std::uint32_t>(1 + random.below(50))};
    };
    Changing ask({bucket(kApi, any_rate())});
    for (int change = 0; change < 5; ++change) {
      ask.drain("k", kApi);
      const Rate rate = any_rate();
      ask.change({bucket(kApi, rate)});
      const Decision told = ask(take("k", kApi, rate.burst + 1));
      CHECK(told.verdict == Verdict::never);
      const std::uint64_t full_ns = ns_rounded_up(make_token_bucket(rate)->tolerance);
      const std::uint32_t at_once = ask.drain("k", kApi);
      CHECK(at_once <= rate.burst);
      CHECK(ask(take("k", kApi)).wait_ns <= full_ns / rate.burst + 1);
      const Ticks while_filling = ticks_from_ns(full_ns) / 2;
      ask.now += while_filling;
      CHECK(ask.drain("k", kApi) <= rate.burst);
    }
  }
}

TEST_CASE("a word is lowered only once nobody decides by the older policies") {
  Changing ask({bucket(kApi, {kMinuteNs, 1, 1})});
  const auto other = ask.engine.enroll();
  CHECK(ask.drain("k", kApi) == 1);
  ask.change({bucket(kApi, {kMinuteNs, 60, 1})});
  CHECK(ask(take("k", kApi)).wait_ns > 50 * kSecondNs);
  static_cast<void>(other->end_turn(ask.now));
  static_cast<void>(ask.worker->end_turn(ask.now));
  CHECK(ask(take("k", kApi)).wait_ns == kSecondNs);
}

TEST_CASE("all that is asked one by one knows of older words, too") {
  Changing ask({bucket(kApi, {kMinuteNs, 1, 1}), bucket(kOther, {kMinuteNs, 60, 60})});
  for (const std::string_view key : {"a", "b"}) CHECK(ask.drain(key, kApi) == 1);
  ask.change({bucket(kApi, {kMinuteNs, 60, 1}), bucket(kOther, {kMinuteNs, 60, 60})});
  ask.now += 2 * kSecond;
  const Layer layers[] = {layer(kApi, "a"), layer(kOther, "a")};
  LayersDecision all;
  ask.worker->take_all(layers, 0, ask.now, all);
  CHECK(all.decision.wait_ns <= kSecondNs);
  ask.now += kSecond;
  ask.worker->take_all(layers, 0, ask.now, all);
  CHECK(all.decision.verdict == Verdict::admitted);
  Decision decision;
  Receipt receipt;
  ask.worker->take_to_settle(take("b", kApi), ask.now, decision, receipt);
  CHECK(decision.wait_ns <= kSecondNs);
  ask.now += kSecond;
  ask.worker->take_to_settle(take("b", kApi), ask.now, decision, receipt);
  CHECK(decision.verdict == Verdict::admitted);
}

TEST_CASE("tiers share keys: an upgrade keeps what was used, and none mints for the other") {
  PolicySpec gold = bucket(kGold, {kSecondNs, 1, 1000});
  gold.identity = kApi;
  Changing ask({bucket(kApi, {kSecondNs, 100, 10}), gold});
  ask.change({bucket(kApi, {kSecondNs, 100, 10}), gold});  // so that words are looked behind
  CHECK(ask(take("k", kGold, 600)).verdict == Verdict::admitted);
  CHECK(ask(take("k", kApi)).verdict == Verdict::denied);
  CHECK(ask.peek("k", kGold).remaining == 400);
  const PolicySpec daily[] = {limits_policies()[6]};
  PolicySpec more = daily[0];
  more.name = "daily/more";
  more.id = kGold;
  more.identity = kDaily;
  more.limit = 5000;
  Changing windows({daily[0], more});
  CHECK(windows(take("k", kDaily, 900)).remaining == 100);
  CHECK(windows(take("k", kGold, 1)).remaining == 4099);
}

TEST_CASE(
    "a version changes with the numbers of its keys, and what was granted before is void then") {
  Changing ask({bucket(kApi, {kSecondNs, 10, 10}), bucket(kOther, {kSecondNs, 10, 10})});
  Decision decision;
  Receipt receipt;
  ask.worker->take_to_settle(take("k", kApi, 5), ask.now, decision, receipt);
  CHECK(decision.policy_version == 1);
  ask.change({bucket(kApi, {kSecondNs, 10, 10}), bucket(kOther, {kSecondNs, 20, 20})});
  CHECK(ask(take("o", kOther)).policy_version == 2);
  ask.worker->settle(take("k", kApi, 1), receipt, ask.now, decision);
  CHECK(decision.verdict == Verdict::admitted);
  ask.worker->take_to_settle(take("k", kApi, 5), ask.now, decision, receipt);
  ask.change({bucket(kApi, {kSecondNs, 11, 10})}, {{kApi, "o", bucket(1, {kSecondNs, 1, 1})}});
  ask.worker->settle(take("k", kApi, 1), receipt, ask.now, decision);
  CHECK(decision.verdict == Verdict::bad_request);
  CHECK(ask(take("o", kOther)).verdict == Verdict::unknown_policy);
  CHECK(ask.engine.policies_version() == 3);
}

TEST_CASE("policies that cannot be used change nothing") {
  Changing ask({bucket(kApi, {kSecondNs, 10, 10})});
  const std::vector<PolicySpec> good{bucket(kApi, {kSecondNs, 5, 5})};
  const std::vector<PolicySpec> twice{good[0], good[0]};
  const std::vector<PolicySpec> endless{bucket(kApi, {kSecondNs, 0, 5})};
  CHECK_FALSE(ask.engine.replace_policies(twice));
  CHECK_FALSE(ask.engine.replace_policies(endless));
  const PolicySpec fine = bucket(1, {kSecondNs, 1, 1});
  PolicySpec window = fine;
  window.algorithm = Algorithm::fixed_window;
  window.limit = 5;
  const auto with_override = [&](OverrideSpec one, OverrideSpec two = {}) {
    std::vector<OverrideSpec> overrides{one};
    if (!two.key.empty()) overrides.push_back(two);
    return ask.engine.replace_policies(good, overrides);
  };
  CHECK_FALSE(with_override({kOther, "k", fine}));
  CHECK_FALSE(with_override({kApi, "", fine}));
  CHECK_FALSE(with_override({kApi, "k", window}));
  CHECK_FALSE(with_override({kApi, "k", bucket(1, {kSecondNs, 1, 0})}));
  CHECK_FALSE(with_override({kApi, "k", fine}, {kApi, "k", fine}));
  CHECK(ask.engine.policies_version() == 1);
  CHECK(ask(take("k", kApi)).limit == 10);
  CHECK(with_override({kApi, "k", fine}));
}

TEST_CASE("a key with numbers of its own") {
  Changing ask({bucket(kApi, {kSecondNs, 10, 10})});
  CHECK(ask(take("alice", kApi, 10)).verdict == Verdict::admitted);
  ask.change({bucket(kApi, {kSecondNs, 10, 10})},
             {{kApi, "alice", bucket(1, {kSecondNs, 10, 100})},
              {kApi, "mallory", bucket(1, {kMinuteNs, 1, 1})}});
  const Decision alice = ask(take("alice", kApi));
  CHECK(alice.verdict == Verdict::admitted);
  CHECK(alice.limit == 100);
  CHECK(alice.remaining == 89);  // what she has used she has used
  CHECK(alice.info == kInfoOverride);
  CHECK(ask.drain("mallory", kApi) == 1);
  CHECK(ask(take("bob", kApi)).limit == 10);
  CHECK(ask(take("bob", kApi)).info == 0);
  LayersDecision all;
  const Layer layers[] = {layer(kApi, "alice", 50)};
  ask.worker->take_all(layers, 0, ask.now, all);
  CHECK(all.decision.verdict == Verdict::admitted);
  ask.change({bucket(kApi, {kSecondNs, 10, 10})});
  CHECK(ask(take("alice", kApi)).wait_ns <= kSecondNs);
  CHECK(ask.drain("mallory", kApi) <= 10);
}

TEST_CASE("a shadow admits all, says what it would have refused, and charges what fits") {
  PolicySpec shadow = bucket(kApi, {kSecondNs, 1, 2});
  shadow.enforcement = Enforcement::shadow;
  Changing ask({shadow, bucket(kOther, {kSecondNs, 1, 2})});
  CHECK(ask(take("k", kApi, 2)).info == 0);
  const Decision pardoned = ask(take("k", kApi));
  CHECK(pardoned.verdict == Verdict::admitted);
  CHECK(pardoned.granted == 1);
  CHECK(pardoned.remaining == 0);
  CHECK(pardoned.wait_ns == 0);
  CHECK(pardoned.info == kInfoShadow);
  CHECK(ask(take("k", kApi, 5)).info == kInfoShadow);  // which would be `never`
  // A layer that is a shadow refuses nobody; one that is not still does.
  const Layer layers[] = {layer(kApi, "k"), layer(kOther, "k")};
  LayersDecision all;
  for (int i = 0; i < 2; ++i) {
    ask.worker->take_all(layers, 0, ask.now, all);
    CHECK(all.decision.verdict == Verdict::admitted);
    CHECK(all.decision.info == kInfoShadow);
  }
  ask.worker->take_all(layers, 0, ask.now, all);
  CHECK(all.decision.verdict == Verdict::denied);
  CHECK(all.layer == 1);
  // What was let through uncounted gives nothing back.
  Decision decision;
  Receipt receipt;
  ask.worker->take_to_settle(take("k", kApi, 2), ask.now, decision, receipt);
  CHECK(decision.info == kInfoShadow);
  CHECK(receipt.tokens == 0);
}

TEST_CASE("a policy that is off counts nothing") {
  PolicySpec off = bucket(kApi, {kSecondNs, 1, 2});
  off.enforcement = Enforcement::off;
  PolicySpec permits = limits_policies()[4];
  permits.enforcement = Enforcement::off;
  Changing ask({off, permits});
  for (int i = 0; i < 5; ++i) CHECK(ask(take("k", kApi, 7)).remaining == 2);
  Decision decision;
  Grant grant;
  for (int i = 0; i < 20; ++i) {
    ask.worker->acquire(take("k", permits.id), ask.now, decision, grant);
    CHECK(decision.verdict == Verdict::admitted);
    CHECK(grant.id == 0);
  }
  ask.worker->release(take("k", permits.id), 0, ask.now, decision);
  CHECK(decision.granted == 0);
  off.enforcement = Enforcement::enforce;
  ask.change({off, permits});
  CHECK(ask.drain("k", kApi) == 2);
}

TEST_CASE("a share of keys, always the same ones") {
  PolicySpec canary = bucket(kApi, {kMinuteNs, 1, 1});
  canary.percent = 10;
  Changing ask({canary});
  int enforced = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "k" + std::to_string(i);
    static_cast<void>(ask(take(key, kApi)));
    const bool first = ask(take(key, kApi)).verdict == Verdict::denied;
    CHECK((ask(take(key, kApi)).verdict == Verdict::denied) == first);
    enforced += first ? 1 : 0;
  }
  CHECK(enforced > 120);
  CHECK(enforced < 280);
}

TEST_CASE("a thousand changes under load, every second one invalid") {
  Changing ask({bucket(kApi, {kSecondNs, 1'000'000, 1000}), bucket(kOther, {kSecondNs, 1, 1})});
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> strange{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const auto worker = ask.engine.enroll();
      const std::string key = "k" + std::to_string(t % 2);
      for (Ticks now = ask.now; !is_over.load(std::memory_order_relaxed); now += 1000) {
        const std::array<Request, 2> requests{take(key, kApi), take("o", kOther)};
        std::array<Decision, 2> decisions;
        worker->decide(requests, now, decisions);
        for (const Decision& decision : decisions) {
          if (decision.verdict > Verdict::denied) strange.fetch_add(1);
        }
        static_cast<void>(worker->end_turn(now));
      }
    });
  }
  ask.worker->offline();
  std::uint32_t refused = 0;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const Rate rate{kSecondNs, i % 2 == 0 ? 1 + i : 0, 1000 + i};
    const std::vector<PolicySpec> specs{bucket(kApi, rate), bucket(kOther, {kSecondNs, 1, 1})};
    refused += ask.engine.replace_policies(specs) ? 0U : 1U;
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(refused == 500);
  CHECK(strange == 0);
  CHECK(ask.engine.policies_version() == 501);
}
