// The engine as its callers see it: requests in, decisions out, time in the test's hands.
#include "server/engine/engine.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/engine/engine_fixture.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

constexpr Rate kFivePerSecond{1'000'000'000, 5, 20};
constexpr std::uint32_t kMax32 = ~std::uint32_t{0};

bool same(const Decision& a, const Decision& b) {
  return a.verdict == b.verdict && a.granted == b.granted && a.remaining == b.remaining &&
         a.limit == b.limit && a.policy_version == b.policy_version && a.wait_ns == b.wait_ns &&
         a.reset_ns == b.reset_ns && a.reason == b.reason;
}

// An engine and a worker of this thread.
struct Fixture {
  explicit Fixture(const Options& options = {}) : engine(options) {}
  Decision operator()(const Request& request, Ticks now) { return decide(*worker, request, now); }

  Engine engine;
  std::unique_ptr<Worker> worker = engine.enroll();
};

Options with_policies(std::vector<NamedRate> policies) {
  return {.policies = std::move(policies)};
}

}  // namespace

TEST_CASE("a bucket of 20 refilled at 5/s admits 20, 5, 10 and 20") {
  Fixture ask;
  const auto admitted = [&](int requests, Ticks at) {
    const std::vector<Request> batch(static_cast<std::size_t>(requests), take("k", kFivePerSecond));
    std::vector<Decision> decisions(batch.size());
    ask.worker->decide(batch, at, decisions);
    int count = 0;
    for (const Decision& decision : decisions) count += decision.verdict == Verdict::admitted;
    return count;
  };
  CHECK(admitted(30, kStart) == 20);
  CHECK(admitted(10, kStart + kSecond) == 5);
  CHECK(admitted(10, kStart + 3 * kSecond) == 10);
  CHECK(admitted(25, kStart + 9 * kSecond) == 20);
}

TEST_CASE("3/s with burst 1 tells exactly when to come again") {
  Fixture ask;
  const Request request = take("k", {1'000'000'000, 3, 1});
  CHECK(ask(request, kStart).verdict == Verdict::admitted);
  const Decision refused = ask(request, kStart);
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 333'333'334);
  const Ticks due = kStart + ticks_from_ns(refused.wait_ns);
  CHECK(ask(request, due - ticks_from_ns(1)).verdict == Verdict::denied);
  CHECK(ask(request, due).verdict == Verdict::admitted);
}

TEST_CASE("the numbers of an answer") {
  Fixture ask;
  const Request sixteen = take("u", {60'000'000'000, 30, 16});
  const Decision first = ask(sixteen, kStart);
  CHECK(first.verdict == Verdict::admitted);
  CHECK(first.granted == 1);
  CHECK(first.limit == 16);
  CHECK(first.remaining == 15);
  CHECK(first.wait_ns == 0);
  CHECK(first.reset_ns == 2'000'000'000);
  CHECK(first.policy_version == 0);

  const Request one = take("k", {2'000'000'000, 1, 1});
  CHECK(ask(one, kStart).reset_ns == 2'000'000'000);
  const Decision second = ask(one, kStart);
  CHECK(second.verdict == Verdict::denied);
  CHECK(second.granted == 0);
  CHECK(second.remaining == 0);
  CHECK(second.wait_ns == 2'000'000'000);
  CHECK(second.reset_ns == 2'000'000'000);
}

TEST_CASE("bad requests say why, and charge nothing") {
  Fixture ask;
  const std::string longest(kMaxKeyBytes, 'x');
  const std::string too_long(kMaxKeyBytes + 1, 'x');
  const auto reason = [&](const Request& request) {
    const Decision decision = ask(request, kStart);
    CHECK(decision.verdict == Verdict::bad_request);
    CHECK(decision.granted == 0);
    return std::string(decision.reason);
  };
  CHECK(reason(take("", kFivePerSecond)) == "the key is empty");
  CHECK(reason(take(too_long, kFivePerSecond)) == "the key is longer than 1024 bytes");
  CHECK(reason(take("k", kFivePerSecond, 0)).find("cost 0") != std::string::npos);
  CHECK(reason(take("k", {0, 1, 1})).find("period is 0") != std::string::npos);
  CHECK(reason(take("k", {0, 0, 0})).find("period is 0") != std::string::npos);
  CHECK(reason(take("k", {1, 0, 1})).find("count is 0") != std::string::npos);
  CHECK(reason(take("k", {1, 1, 0})).find("burst is 0") != std::string::npos);
  CHECK(reason(take("k", 0U)).find("neither") != std::string::npos);
  Request request = take("k", kFivePerSecond);
  request.priority = 4;
  CHECK(reason(request).find("priority") != std::string::npos);
  CHECK(ask(take("k", 77U), kStart).verdict == Verdict::unknown_policy);
  CHECK(ask(take(longest, kFivePerSecond), kStart).verdict == Verdict::admitted);
  CHECK(ask(take("k", kFivePerSecond), kStart).remaining == 19);
}

TEST_CASE("a cost that can never fit is told apart from one that must wait") {
  Fixture ask;
  CHECK(ask(take("k", kFivePerSecond, 20), kStart).verdict == Verdict::admitted);
  CHECK(ask(take("k", kFivePerSecond, 20), kStart).verdict == Verdict::denied);
  for (const std::uint32_t cost : {21U, kMax32}) {
    const Decision never = ask(take("k", kFivePerSecond, cost), kStart + kSecond);
    CHECK(never.verdict == Verdict::never);
    CHECK(never.wait_ns == kWaitForever);
    CHECK(never.remaining == 5);
    CHECK(never.reset_ns == 3'000'000'000);
  }
}

TEST_CASE("only an admitted take makes an entry") {
  constexpr int kKeys = 64;
  Fixture ask;
  for (int i = 0; i < 100 * kKeys; ++i) {
    const std::string key = "other" + std::to_string(i);
    ask(take(key, kFivePerSecond, 21), kStart);
    ask(take(key, kFivePerSecond, 0), kStart);
    ask(with(Action::peek, take(key, kFivePerSecond)), kStart);
    ask(with(Action::peek, take(key, kFivePerSecond, 0)), kStart);
    ask(with(Action::reset, take(key, kFivePerSecond)), kStart);
  }
  CHECK(ask.engine.table_stats().entries == 0);
  for (int i = 0; i < kKeys; ++i) {
    CHECK(ask(take(std::to_string(i), kFivePerSecond), kStart).verdict == Verdict::admitted);
  }
  CHECK(ask.engine.table_stats().entries == kKeys);
}

TEST_CASE("a full table refuses new keys, and only those") {
  constexpr int kKeys = 10'000;
  Fixture ask({.memory_limit_bytes = std::size_t{8} << 20});
  const Rate rate{86'400'000'000'000, 1, 1000};
  int admitted = 0;
  Decision decision;
  while (admitted < 1'000'000) {
    decision = ask(take("key" + std::to_string(admitted), rate), kStart);
    if (decision.verdict != Verdict::admitted) break;
    ++admitted;
  }
  CHECK(admitted >= kKeys);
  CHECK(decision.verdict == Verdict::table_full);
  CHECK(decision.granted == 0);
  CHECK(decision.wait_ns == kTableFullRetryNs);
  for (int i = 0; i < admitted; ++i) {
    CHECK(ask(take("key" + std::to_string(i), rate), kStart).remaining == 998);
  }
}

TEST_CASE("a full table lets new keys through where that was asked for") {
  Fixture ask({.memory_limit_bytes = 0, .on_full = OnFull::admit});
  const Decision decision = ask(take("k", kFivePerSecond, 3), kStart);
  CHECK(decision.verdict == Verdict::admitted);
  CHECK(decision.granted == 3);
  CHECK(decision.remaining == 0);
  CHECK(ask.engine.table_stats().refused_keys == 1);
  CHECK(ask(take("k", kFivePerSecond, 21), kStart).verdict == Verdict::never);
}

TEST_CASE("a peek tells what a take would be answered, and changes nothing") {
  Fixture ask;
  for (const std::uint32_t cost : {1U, 7U, 20U, 12U, 13U, 21U}) {
    const Request request = take("k", kFivePerSecond, cost);
    const Decision peeked = ask(with(Action::peek, request), kStart);
    CHECK(same(peeked, ask(with(Action::peek, request), kStart)));
    CHECK(same(peeked, ask(request, kStart)));
  }
  const Decision look = ask(with(Action::peek, take("k", kFivePerSecond, 0)), kStart);
  CHECK(look.verdict == Verdict::admitted);
  CHECK(look.remaining == 0);
  CHECK(look.reset_ns == 4'000'000'000);
  const Decision fresh = ask(with(Action::peek, take("new", kFivePerSecond, 0)), kStart);
  CHECK(fresh.remaining == 20);
  CHECK(fresh.reset_ns == 0);
}

TEST_CASE("a reset makes the key as good as new") {
  Fixture ask(with_policies({{"api", 9, kFivePerSecond}}));
  CHECK(ask(take("k", 9U, 20), kStart).remaining == 0);
  const Decision decision = ask(with(Action::reset, take("k", 9U, 0)), kStart);
  CHECK(decision.verdict == Verdict::admitted);
  CHECK(decision.granted == 0);
  CHECK(decision.remaining == 20);
  CHECK(decision.limit == 20);
  CHECK(decision.reset_ns == 0);
  CHECK(ask(take("k", 9U, 20), kStart).verdict == Verdict::admitted);
  CHECK(ask(take("k", 9U), kStart).verdict == Verdict::denied);
}

TEST_CASE("a reset needs no limit to find a key that is not under a policy") {
  Fixture ask(with_policies({{"api", 9, kFivePerSecond}}));
  ask(take("k", kFivePerSecond, 20), kStart);
  ask(take("k", 9U, 20), kStart);
  const Decision decision = ask(with(Action::reset, take("k", 0U)), kStart);
  CHECK(decision.verdict == Verdict::admitted);
  CHECK(decision.limit == 0);
  CHECK(decision.remaining == 0);
  CHECK(ask(take("k", kFivePerSecond, 20), kStart).verdict == Verdict::admitted);
  CHECK(ask(take("k", 9U), kStart).verdict == Verdict::denied);
}

TEST_CASE("policies and inline limits have words of their own; inline limits share the key's") {
  Fixture ask(with_policies({{"a", 1, kFivePerSecond}, {"b", 2, kFivePerSecond}}));
  CHECK(ask(take("k", 1U, 20), kStart).policy_version == 1);
  CHECK(ask(take("k", 1U), kStart).verdict == Verdict::denied);
  CHECK(ask(take("k", 2U, 20), kStart).verdict == Verdict::admitted);
  CHECK(ask(take("k", kFivePerSecond, 20), kStart).verdict == Verdict::admitted);
  // Another limit on the same key sees the debt, truthfully: 4 s of it, of which 1 s is too much to
  // have.
  const Decision other = ask(take("k", {1'000'000'000, 1, 4}), kStart);
  CHECK(other.verdict == Verdict::denied);
  CHECK(other.wait_ns == 1'000'000'000);
}

TEST_CASE("two limits in turn on one key mint no tokens") {
  Fixture ask;
  std::uint32_t granted = 0;
  for (int i = 0; i < 1000; ++i) {
    granted += ask(take("k", {1'000'000'000, 1, 10}), kStart).granted;
    granted += ask(take("k", {1'000'000'000, 10, 1}), kStart).granted;
  }
  CHECK(granted <= 11);
}

TEST_CASE("a partial take is content with less") {
  Fixture ask;
  ask(take("k", kFivePerSecond, 15), kStart);
  Request request = take("k", kFivePerSecond, kMax32);
  request.partial = true;
  const Decision some = ask(request, kStart);
  CHECK(some.verdict == Verdict::admitted);
  CHECK(some.granted == 5);
  CHECK(some.remaining == 0);
  const Decision none = ask(request, kStart);
  CHECK(none.verdict == Verdict::denied);
  CHECK(none.wait_ns == 200'000'000);
  CHECK(ask(request, kStart + ticks_from_ns(none.wait_ns)).granted == 1);
}

TEST_CASE("a batch is decided as its requests would be one by one") {
  Random random(5);
  HashSecret secret{};
  Options options{.policies = {{"a", 1, {1'000'000, 10, 30}}}, .secret = secret};
  Fixture batched(options);
  Fixture single(options);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 40; ++i) {
    keys.push_back(std::string(random.between(1, kMaxKeyBytes), static_cast<char>('a' + i % 26)));
  }
  Ticks now = kStart;
  for (int round = 0; round < 2000; ++round) {
    std::vector<Request> requests;
    const std::size_t size = random.below(50);
    const std::size_t spread = random.one_in(2) ? 3 : keys.size();  // often the same key
    for (std::size_t i = 0; i < size; ++i) {
      const std::string& key = keys[random.below(spread)];
      const auto cost = static_cast<std::uint32_t>(random.below(5));
      const auto burst = static_cast<std::uint32_t>(random.below(20));
      Request request = random.one_in(3)
                            ? take(key, static_cast<std::uint32_t>(random.below(3)), cost)
                            : take(key, {1'000'000, 7, burst}, cost);
      request.partial = random.one_in(4);
      request.priority = static_cast<std::uint8_t>(random.below(5));
      if (random.one_in(4)) request.action = random.one_in(2) ? Action::peek : Action::reset;
      requests.push_back(request);
    }
    std::vector<Decision> decisions(size);
    batched.worker->decide(requests, now, decisions);
    for (std::size_t i = 0; i < size; ++i) {
      const Decision alone = single(requests[i], now);
      if (!same(decisions[i], alone)) FAIL("round ", round, " request ", i, " of ", size);
    }
    now += random.below(ticks_from_ns(1'000'000));
  }
}

TEST_CASE(
    "waiting for exactly as long as told is enough, 1 ns less is not, and nothing exceeds the "
    "limit") {
  Random random(6);
  Fixture ask;
  Ticks now = kStart;
  const Rate rate{1'000'000'000, 7, 9};
  for (int i = 0; i < 100'000; ++i) {
    const Request request = take("k", rate, static_cast<std::uint32_t>(random.between(1, 9)));
    const Decision decision = ask(request, now);
    if (decision.remaining > decision.limit) FAIL("remaining ", decision.remaining);
    if (decision.verdict != Verdict::denied) continue;
    const Ticks due = now + ticks_from_ns(decision.wait_ns);
    if (ask(with(Action::peek, request), due - kTicksPerNs).verdict != Verdict::denied ||
        ask(request, due).verdict != Verdict::admitted) {
      FAIL("told to wait ", decision.wait_ns, " ns at ", now);
    }
    now = due + random.below(kSecond);
  }
}

TEST_CASE("time before the beginning and after the end is brought into range") {
  Fixture ask;
  CHECK(ask(take("early", kFivePerSecond, 20), 0).verdict == Verdict::admitted);
  CHECK(ask(with(Action::reset, take("early", kFivePerSecond)), 0).remaining == 20);
  CHECK(ask(take("early", kFivePerSecond, 20), 0).verdict == Verdict::admitted);
  CHECK(ask(take("early", kFivePerSecond), 0).verdict == Verdict::denied);
  CHECK(ask(take("late", kFivePerSecond, 20), ~Ticks{0}).verdict == Verdict::admitted);
  const Decision decision = ask(take("late", kFivePerSecond), ~Ticks{0});
  CHECK(decision.verdict == Verdict::denied);
  CHECK(decision.wait_ns == 200'000'000);
}

TEST_CASE("a clock that goes back neither mints tokens nor blocks for longer than the step") {
  Fixture ask;
  CHECK(ask(take("k", kFivePerSecond, 20), kStart).verdict == Verdict::admitted);
  const Decision before = ask(take("k", kFivePerSecond), kStart - 100 * kSecond);
  CHECK(before.verdict == Verdict::denied);
  CHECK(before.wait_ns == 100'200'000'000);
  CHECK(ask(take("k", kFivePerSecond), kStart + kSecond / 5).verdict == Verdict::admitted);
}

TEST_CASE("an engine refuses policies that cannot work") {
  CHECK_THROWS_AS(Engine(with_policies({{"a", 1, {0, 1, 1}}})), std::invalid_argument);
}
