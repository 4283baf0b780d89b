// Every kind of policy through the engine: the known answers, and what no kind may do (write on a
// peek, charge a refusal, give back twice).
#include <doctest/doctest.h>

#include <string>

#include "tests/engine/limits_fixture.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

TEST_CASE("a bucket of 100 at 100 a minute, 4 left, cost 10: retry after 3.6 s") {
  LimitsFixture ask;
  const Rate rate{60'000'000'000, 100, 100};
  CHECK(ask(take("k", rate, 96)).remaining == 4);
  const Decision refused = ask(take("k", rate, 10));
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 3'600'000'000);
}

TEST_CASE("burst 10, 1/s, reserve 3: 8 never; with 5 used, 4 is shed, wait 2 s, remaining 2") {
  LimitsFixture ask;
  CHECK(ask(take("k", kBucket, 8)).verdict == Verdict::never);
  CHECK(ask(take("k", kBucket, 5)).verdict == Verdict::admitted);
  const Decision shed = ask(take("k", kBucket, 4));
  CHECK(shed.verdict == Verdict::shed);
  CHECK(shed.wait_ns == 2'000'000'000);
  CHECK(shed.remaining == 2);
  Request high = take("k", kBucket, 4);
  high.priority = 1;
  CHECK(ask(high).verdict == Verdict::admitted);
}

TEST_CASE("a queue tells how long to hold") {
  LimitsFixture ask;
  for (std::uint64_t turn = 0; turn <= 5; ++turn) {
    const Decision decision = ask(take("k", kQueue));
    CHECK(decision.verdict == Verdict::admitted);
    CHECK(decision.wait_ns == turn * 100'000'000);
    CHECK(decision.limit == 1);
  }
  const Decision refused = ask(take("k", kQueue));
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 100'000'000);
}

TEST_CASE("a sliding window through the engine: 84 before, 36 now, 18 s in") {
  LimitsFixture ask;
  ask.now = 660 * kSecond - 1;
  CHECK(ask(take("k", kSliding, 84)).verdict == Verdict::admitted);
  ask.now = 660 * kSecond + 18 * kSecond;
  CHECK(ask(take("k", kSliding, 36)).verdict == Verdict::admitted);
  for (int i = 0; i < 5; ++i) CHECK(ask(take("k", kSliding)).verdict == Verdict::admitted);
  CHECK(ask(take("k", kSliding)).verdict == Verdict::denied);
}

TEST_CASE("a sliding window through the engine: 100 before, 15 s in") {
  LimitsFixture ask;
  ask.now = 660 * kSecond - 1;
  CHECK(ask(take("k", kSliding, 100)).verdict == Verdict::admitted);
  ask.now = 660 * kSecond + 15 * kSecond;
  CHECK(ask(take("k", kSliding, 26)).verdict == Verdict::denied);
  CHECK(ask(take("k", kSliding, 25)).verdict == Verdict::admitted);
  const Decision refused = ask(take("k", kSliding));
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 600'000'000);
}

TEST_CASE("a fixed window starts anew with the minute, a billing month with its day") {
  LimitsFixture ask;
  ask.now = 600 * kSecond + 45 * kSecond;
  CHECK(ask(take("k", kFixed, 10)).remaining == 0);
  const Decision refused = ask(take("k", kFixed));
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 15'000'000'000);
  CHECK(refused.limit == 10);
  CHECK(ask(take("k", kMonthly, 5)).verdict == Verdict::admitted);
  ask.now += 15 * kSecond;
  CHECK(ask(take("k", kFixed, 10)).verdict == Verdict::admitted);
  const Decision month = ask(take("k", kMonthly));
  CHECK(month.verdict == Verdict::denied);
  CHECK(month.wait_ns == (std::uint64_t{14} * 86'400 - 660) * 1'000'000'000);
}

TEST_CASE("a peek of any kind is what a take would be, and changes nothing") {
  LimitsFixture ask;
  Random random(31);
  for (int i = 0; i < 20'000; ++i) {
    const auto policy = static_cast<std::uint32_t>(random.between(kBucket, kMonthly));
    if (policy == kPermits) continue;
    Request request = take("k", policy, static_cast<std::uint32_t>(random.between(1, 12)));
    request.priority = static_cast<std::uint8_t>(random.below(4));
    request.partial = random.one_in(4);
    const Decision first = ask(with(Action::peek, request));
    const Decision second = ask(with(Action::peek, request));
    const Decision taken = ask(request);
    CHECK(first.verdict == taken.verdict);
    CHECK(first.granted == taken.granted);
    CHECK(first.wait_ns == taken.wait_ns);
    CHECK(first.remaining == second.remaining);
    CHECK(first.reset_ns == second.reset_ns);
    CHECK(taken.remaining <= taken.limit);
    if (taken.verdict == Verdict::denied || taken.verdict == Verdict::shed) {
      CHECK(taken.wait_ns > 0);
      CHECK(ask(with(Action::peek, request)).remaining == first.remaining);
    }
    if (random.one_in(4)) ask.now += random.magnitude(1, 20 * kSecond);
  }
}

TEST_CASE("who waits as long as told is admitted, under every kind of policy") {
  LimitsFixture ask;
  Random random(32);
  int waited = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto policy = static_cast<std::uint32_t>(random.between(kBucket, kBudget));
    if (policy == kPermits) continue;
    const Request request = take("k", policy, static_cast<std::uint32_t>(random.between(1, 12)));
    const Decision decision = ask(request);
    if (decision.verdict != Verdict::denied && decision.verdict != Verdict::shed) continue;
    ask.now += ticks_from_ns(decision.wait_ns) - kTicksPerNs;
    CHECK(ask(with(Action::peek, request)).verdict != Verdict::admitted);
    ask.now += kTicksPerNs;
    CHECK(ask(request).verdict == Verdict::admitted);
    ++waited;
  }
  CHECK(waited > 100);
}

TEST_CASE("a reset makes a key as good as new, under every kind of policy") {
  LimitsFixture ask;
  for (const std::uint32_t policy : {kQueue, kFixed, kSliding, kDaily, kMonthly}) {
    Request all = take("k", policy, UINT32_MAX);
    all.partial = true;
    CHECK(ask(all).granted > 0);
    CHECK(ask(with(Action::reset, take("k", policy, 0))).reset_ns == 0);
    CHECK(ask.left(policy, "k") == ask(with(Action::peek, take("k", policy, 0))).limit);
  }
  Grant grant;
  Decision decision;
  ask.worker->acquire(take("k", kPermits, 10), ask.now, decision, grant);
  CHECK(decision.remaining == 0);
  CHECK(ask(with(Action::reset, take("k", kPermits, 0))).remaining == 10);
  ask.worker->release(take("k", kPermits, 10), grant.id, ask.now, decision);
  CHECK(decision.granted == 0);
  CHECK(decision.remaining == 10);
}

TEST_CASE("the wrong verb for a policy is a bad request, and charges nothing") {
  LimitsFixture ask;
  CHECK(ask(take("k", kPermits)).verdict == Verdict::bad_request);
  CHECK(ask.left(kPermits, "k") == 10);
  Decision decision;
  Grant grant;
  ask.worker->acquire(take("k", kBucket), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::bad_request);
  ask.worker->acquire(take("k", 77U), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::unknown_policy);
  ask.worker->acquire(take("k", kPermits, 0), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::bad_request);
  Receipt receipt;
  ask.worker->take_to_settle(take("k", Rate{1, 1, 1}), ask.now, decision, receipt);
  CHECK(decision.verdict == Verdict::bad_request);
}

namespace {

struct Settling {
  LimitsFixture ask;
  Decision decision;
  Receipt receipt;

  void take_first(std::uint32_t policy, std::uint32_t cost) {
    ask.worker->take_to_settle(take("k", policy, cost), ask.now, decision, receipt);
    CHECK(decision.verdict == Verdict::admitted);
  }
  std::uint32_t settle(std::uint32_t policy, std::uint32_t actual) {
    ask.worker->settle(take("k", policy, actual), receipt, ask.now, decision);
    return decision.granted;
  }
};

}  // namespace

TEST_CASE("settling downwards gives back what time has not") {
  Settling settling;
  settling.ask(take("k", kBudget, 60));
  settling.take_first(kBudget, 10);
  settling.ask.now += kSecond / 20;
  CHECK(settling.settle(kBudget, 0) == 5);  // half of the ten had come back by themselves
  CHECK(settling.decision.remaining == 100 - 60 - 10 + 5 + 5);
}

TEST_CASE("settling upwards charges down to max_debt, and tells what was charged") {
  Settling settling;
  settling.take_first(kBudget, 40);
  CHECK(settling.settle(kBudget, 45) == 45);
  CHECK(settling.decision.remaining == 55);
  settling.take_first(kBudget, 5);
  CHECK(settling.settle(kBudget, 1000) == 5 + 100);
  CHECK(settling.decision.remaining == 0);
  CHECK(settling.ask(take("k", kBudget)).wait_ns == 510'000'000);
}

TEST_CASE("settling a fixed window, in it and after it") {
  Settling settling;
  settling.take_first(kDaily, 600);
  CHECK(settling.settle(kDaily, 250) == 250);
  CHECK(settling.decision.remaining == 750);
  settling.take_first(kDaily, 700);
  CHECK(settling.settle(kDaily, 2000) == 700 + 150);
  settling.ask(with(Action::reset, take("k", kDaily, 0)));
  settling.take_first(kDaily, 600);
  settling.ask.now += 86'400 * kSecond;
  settling.settle(kDaily, 100);  // that day's budget is past: today's is as it was
  CHECK(settling.decision.remaining == 1000);
}

TEST_CASE("a receipt is for its own policy and key") {
  Settling settling;
  settling.take_first(kBudget, 40);
  settling.settle(kDaily, 0);
  CHECK(settling.decision.verdict == Verdict::bad_request);
  settling.ask.worker->settle(take("other", kBudget, 0), settling.receipt, settling.ask.now,
                              settling.decision);
  CHECK(settling.decision.verdict == Verdict::bad_request);
  CHECK(settling.ask.left(kBudget, "k") == 60);
}

TEST_CASE("permits: acquired, renewed into the next round, released once") {
  LimitsFixture ask;
  Decision decision;
  Grant grant;
  ask.worker->acquire(take("k", kPermits, 4), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::admitted);
  CHECK(decision.remaining == 6);
  CHECK(grant.ttl_ns == 10'000'000'000);
  const Grant first = grant;
  ask.now += 10 * kSecond;
  ask.worker->renew(take("k", kPermits, 4), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::admitted);
  CHECK(decision.granted == 4);
  CHECK(decision.remaining == 6);
  CHECK(grant.id != first.id);
  ask.worker->release(take("k", kPermits, 4), first.id, ask.now, decision);
  CHECK(decision.granted == 0);
  ask.worker->release(take("k", kPermits, 3), grant.id, ask.now, decision);
  CHECK(decision.granted == 0);  // another cost than it was given for
  ask.worker->release(take("other", kPermits, 4), grant.id, ask.now, decision);
  CHECK(decision.granted == 0);
  ask.now += 10 * kSecond;
  ask.worker->release(take("k", kPermits, 4), grant.id, ask.now, decision);
  CHECK(decision.granted == 4);
  CHECK(decision.remaining == 10);
}

TEST_CASE("permits, as many as there are: renewed and released as what they are") {
  LimitsFixture ask;
  Decision decision;
  Grant grant;
  ask.worker->acquire(take("k", kPermits, 7), ask.now, decision, grant);
  Request rest = take("k", kPermits, 9);
  rest.partial = true;
  ask.worker->acquire(rest, ask.now, decision, grant);
  CHECK(decision.granted == 3);
  CHECK(decision.remaining == 0);
  const Grant three = grant;
  ask.worker->acquire(rest, ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::denied);
  CHECK(decision.granted == 0);
  ask.worker->release(take("k", kPermits, 9), three.id, ask.now, decision);
  CHECK(decision.granted == 0);
  grant = three;
  ask.now += 10 * kSecond;
  ask.worker->renew(take("k", kPermits, 3), ask.now, decision, grant);
  CHECK(decision.granted == 3);
  ask.worker->release(take("k", kPermits, 3), grant.id, ask.now, decision);
  CHECK(decision.granted == 3);
  CHECK(decision.remaining == 3);
}

TEST_CASE("a lapsed permit is not renewed, and the answer says when there is another") {
  LimitsFixture ask;
  Decision decision;
  Grant grant;
  Grant other;
  ask.worker->acquire(take("k", kPermits, 10), ask.now, decision, grant);
  ask.now += 20 * kSecond;
  ask.worker->acquire(take("k", kPermits, 10), ask.now, decision, other);
  CHECK(decision.verdict == Verdict::admitted);
  ask.worker->renew(take("k", kPermits, 10), ask.now, decision, grant);
  CHECK(decision.verdict == Verdict::denied);
  CHECK(decision.granted == 0);
  CHECK(decision.wait_ns == 20'000'000'000);
}

TEST_CASE("a renewal that is refused where there is room says so: all that is left, and no wait") {
  LimitsFixture ask;
  Decision decision;
  Grant grant;
  ask.worker->acquire(take("k", kPermits, 4), ask.now, decision, grant);
  const Grant lapsed = grant;
  ask.now += 20 * kSecond;
  ask.worker->acquire(take("k", kPermits, 3), ask.now, decision, grant);
  for (const auto& [cost, wait_ns] :
       std::vector<std::pair<std::uint32_t, std::uint64_t>>{{4, 0}, {8, 20'000'000'000}}) {
    grant = lapsed;
    ask.worker->renew(take("k", kPermits, cost), ask.now, decision, grant);
    CHECK(decision.verdict == Verdict::denied);
    CHECK(decision.granted == 0);
    CHECK(decision.remaining == 7);
    CHECK(decision.wait_ns == wait_ns);
    CHECK(grant.id == lapsed.id);
  }
  CHECK(ask.left(kPermits, "k") == 7);
}
