// What is counted under a policy, whatever decides, and across every change; and what becomes of
// requests for policies that there are not.
#include "server/engine/policy_counters.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/engine/limits_fixture.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr std::uint64_t kDayNs = 86'400'000'000'000;
constexpr std::uint32_t kApi = 77;
constexpr std::uint32_t kOther = 78;
constexpr std::uint32_t kNobody = 4711;

PolicySpec daily(std::uint32_t id, std::uint32_t burst) {
  PolicySpec spec;
  spec.name = "p" + std::to_string(id);
  spec.id = id;
  spec.rate = {kDayNs, 1, burst};
  return spec;
}

std::uint64_t all(const PolicyCounts& of) {
  return of.admitted + of.denied + of.shed + of.never + of.table_full + of.expired + of.tokens;
}

}  // namespace

TEST_CASE("takes of a batch count by verdict; peeks, resets, inline limits and nonsense do not") {
  LimitsFixture ask;
  CHECK(ask(take("k", kBucket, 7)).verdict == Verdict::admitted);
  CHECK(ask(take("k", kBucket, 3)).verdict == Verdict::shed);
  Request high = take("k", kBucket, 3);
  high.priority = 3;
  CHECK(ask(high).verdict == Verdict::admitted);
  CHECK(ask(high).verdict == Verdict::denied);
  CHECK(ask(take("k", kBucket, 11)).verdict == Verdict::never);
  ask(with(Action::peek, take("k", kBucket)));
  ask(with(Action::reset, take("k", kBucket)));
  ask(take("k", Rate{kDayNs, 1, 1}));
  ask(take("", kBucket));
  const PolicyCounts of = ask.engine.policy_counts(kBucket);
  CHECK(of.admitted == 2);
  CHECK(of.denied == 1);
  CHECK(of.shed == 1);
  CHECK(of.never == 1);
  CHECK(of.tokens == 10);
  CHECK(of.shadow == 0);
  CHECK(all(ask.engine.policy_counts(kQueue)) == 0);
  ask.worker->count_expired(kBucket);
  CHECK(ask.engine.policy_counts(kBucket).expired == 1);
}

TEST_CASE("what is decided one by one counts as what is decided in a batch") {
  LimitsFixture ask;
  Decision decision;
  Receipt receipt;
  Grant grant;
  ask.worker->take_to_settle(take("k", kBudget, 60), ask.now, decision, receipt);
  ask.worker->settle(take("k", kBudget, 10), receipt, ask.now, decision);
  ask.worker->take_to_settle(take("k", kBudget, 101), ask.now, decision, receipt);
  CHECK(ask.engine.policy_counts(kBudget).admitted == 1);
  CHECK(ask.engine.policy_counts(kBudget).never == 1);
  CHECK(ask.engine.policy_counts(kBudget).tokens == 60);
  ask.worker->acquire(take("k", kPermits, 10), ask.now, decision, grant);
  ask.worker->acquire(take("k", kPermits, 1), ask.now, decision, grant);
  CHECK(ask.engine.policy_counts(kPermits).admitted == 1);
  CHECK(ask.engine.policy_counts(kPermits).denied == 1);
  CHECK(ask.take_all({layer(kFixed, "a", 10), layer(kDaily, "a", 5)}).layer == kNoLayer);
  CHECK(ask.take_all({layer(kFixed, "a", 1), layer(kDaily, "a", 5)}).layer == 0);
  CHECK(ask.engine.policy_counts(kFixed).admitted == 1);
  CHECK(ask.engine.policy_counts(kFixed).denied == 1);
  CHECK(ask.engine.policy_counts(kDaily).admitted == 1);
  CHECK(ask.engine.policy_counts(kDaily).denied == 0);
  CHECK(ask.engine.policy_counts(kDaily).tokens == 5);
}

TEST_CASE("what is let through only because nothing is enforced counts as that, too") {
  PolicySpec shadow = daily(kApi, 1);
  shadow.enforcement = Enforcement::shadow;
  Engine engine({.policies = {shadow}});
  const auto worker = engine.enroll();
  for (int i = 0; i < 5; ++i) decide(*worker, take("k", kApi), kStart);
  const std::vector<Layer> layers{layer(kApi, "k"), layer(kApi, "new")};
  LayersDecision all_of_them;
  worker->take_all(layers, 0, kStart, all_of_them);
  CHECK(all_of_them.layer == kNoLayer);
  const PolicyCounts of = engine.policy_counts(kApi);
  CHECK(of.admitted == 7);
  CHECK(of.shadow == 5);
  CHECK(of.denied == 0);
  CHECK(of.tokens == 7);
}

TEST_CASE("numbers are a policy's, however it changes, and a new one begins at 0") {
  Engine engine({.policies = {daily(kApi, 5)}});
  const auto worker = engine.enroll();
  const auto other = engine.enroll();
  decide(*worker, take("a", kApi), kStart);
  decide(*other, take("b", kApi), kStart);
  CHECK(engine.policy_counts(kApi).admitted == 2);
  REQUIRE(engine.replace_policies(std::vector{daily(kOther, 9), daily(kApi, 3)}));
  CHECK(engine.policy_counts(kApi).admitted == 2);
  decide(*worker, take("c", kApi), kStart);
  decide(*worker, take("c", kOther), kStart);
  CHECK(engine.policy_counts(kApi).admitted == 3);
  CHECK(engine.policy_counts(kOther).admitted == 1);
  REQUIRE(engine.replace_policies(std::vector{daily(kOther, 9)}));
  REQUIRE(engine.replace_policies(std::vector{daily(kOther, 9), daily(kApi, 3)}));
  decide(*worker, take("d", kApi), kStart);
  CHECK(engine.policy_counts(kApi).admitted == 4);
}

TEST_CASE("the numbers of a worker outlive it, and go on under the next one") {
  Engine engine({.policies = {daily(kApi, 5)}});
  for (std::uint64_t i = 1; i <= 3; ++i) {
    const auto worker = engine.enroll();
    decide(*worker, take("k" + std::to_string(i), kApi), kStart);
    CHECK(engine.policy_counts(kApi).admitted == i);
  }
}

TEST_CASE("slots are used again once there are no others, and not before they are settled") {
  const KeyHasher hasher(HashSecret{});
  PolicyCounters counters;
  PolicySheet& sheet = counters.lend();
  const auto set_of = [&](std::uint32_t first, std::uint32_t version) {
    std::vector<PolicySpec> specs;
    for (std::uint32_t i = 0; i < kMaxPolicies; ++i) specs.push_back(daily(first + i, 1));
    return PolicySet::make(specs, version, hasher).value();
  };
  PolicySet first = set_of(1'000'000, 1);
  counters.assign(first, 0);
  sheet.add(first.find(1'000'000)->slot, 0, 7);
  CHECK(counters.of(1'000'000).admitted == 7);
  PolicySet second = set_of(2'000'000, 2);
  counters.assign(second, 1);
  CHECK(counters.of(1'000'000).admitted == 7);  // gone, and there is still room
  PolicySet third = set_of(3'000'000, 3);
  counters.assign(third, 1);  // the second may still be in use, and so may what it has not
  CHECK(third.find(3'000'005)->slot == kSlotOfNobody);
  PolicySet fourth = set_of(4'000'000, 4);
  counters.assign(fourth, 3);
  const std::uint32_t slot = first.find(1'000'000)->slot;
  const Policy* heir = nullptr;
  for (const Policy& policy : fourth.policies()) {
    CHECK_FALSE(policy.slot == kSlotOfNobody);
    if (policy.slot == slot) heir = &policy;
  }
  REQUIRE(heir != nullptr);
  CHECK(counters.of(heir->id).admitted == 0);
  CHECK(counters.of(1'000'000).admitted == 0);
  sheet.add(slot, 0, 1);
  CHECK(counters.of(heir->id).admitted == 1);
}

TEST_CASE("read while policies change and workers count, numbers only grow") {
  Engine engine({.policies = {daily(kApi, 1'000)}});
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const auto worker = engine.enroll();
      while (!is_over) {
        decide(*worker, take("k", kApi), kStart);
        taken.fetch_add(1);
        static_cast<void>(worker->end_turn(kStart));
      }
    });
  }
  std::uint64_t before = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    REQUIRE(engine.replace_policies(std::vector{daily(10'000 + i, 1), daily(kApi, 1'000 + i)}));
    const PolicyCounts of = engine.policy_counts(kApi);
    CHECK(of.admitted + of.denied >= before);
    before = of.admitted + of.denied;
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  const PolicyCounts of = engine.policy_counts(kApi);
  CHECK(of.admitted + of.denied == taken);
}

TEST_CASE(
    "requests for policies that there are not: refused, admitted, or another's, and counted") {
  using Rule = UnknownPolicy::Rule;
  const std::vector specs{daily(kApi, 2)};
  for (const Rule rule : {Rule::refuse, Rule::admit, Rule::by_default}) {
    CAPTURE(static_cast<int>(rule));
    Engine engine({.policies = specs, .unknown_policy = {rule, kApi}});
    const auto worker = engine.enroll();
    const auto ask = [&](const Request& request) { return decide(*worker, request, kStart); };
    Decision decision;
    Receipt receipt;
    Grant grant;
    LayersDecision layers;
    if (rule == Rule::refuse) {
      CHECK(ask(take("k", kNobody)).verdict == Verdict::unknown_policy);
      CHECK(engine.unknown_policies() == 1);
      continue;
    }
    CHECK(ask(take("k", kNobody)).verdict == Verdict::admitted);
    CHECK(ask(take("k", kNobody + 1)).verdict == Verdict::admitted);
    const bool is_free = rule == Rule::admit;
    CHECK((ask(take("k", kNobody)).verdict == Verdict::admitted) == is_free);
    CHECK((ask(take("k", kApi)).verdict == Verdict::admitted) == is_free);
    CHECK((ask(take("k", kNobody, 3)).verdict == Verdict::admitted) == is_free);
    CHECK(engine.policy_counts(kApi).denied == (is_free ? 0 : 2));
    CHECK(engine.policy_counts(kNobody).admitted == 0);
    CHECK(engine.unknown_policies() == 4);
    // All that is asked one by one.
    worker->take_to_settle(take("s", kNobody), kStart, decision, receipt);
    CHECK(decision.verdict == Verdict::admitted);
    worker->settle(take("s", kNobody), receipt, kStart, decision);
    CHECK(decision.verdict == Verdict::admitted);
    worker->acquire(take("k", kNobody), kStart, decision, grant);
    CHECK((decision.verdict == Verdict::admitted) == is_free);
    const std::vector<Layer> asked{layer(kNobody, "x"), layer(kNobody + 1, is_free ? "x" : "y")};
    worker->take_all(asked, 0, kStart, layers);
    CHECK(layers.decision.verdict == Verdict::admitted);
    CHECK(engine.unknown_policies() == 9);
    // No policy at all is still a mistake.
    CHECK(ask(take("k", std::uint32_t{0})).verdict == Verdict::bad_request);
    // And what there is then is decided by itself.
    REQUIRE(
        engine.replace_policies(std::vector{daily(kApi, 2), daily(kNobody, 1)}, {}, {rule, kApi}));
    CHECK(ask(take("new", kNobody)).limit == 1);
    CHECK(engine.unknown_policies() == 9);
  }
}

TEST_CASE("a default for unknown policies must be there") {
  const std::vector specs{daily(kApi, 2)};
  const UnknownPolicy unknown{UnknownPolicy::Rule::by_default, kOther};
  CHECK(check_policies(specs, {}, unknown).find("names a policy that there is not") !=
        std::string::npos);
  Engine engine({.policies = specs});
  CHECK_FALSE(engine.replace_policies(specs, {}, unknown));
  CHECK(engine.policies_version() == 1);
}
