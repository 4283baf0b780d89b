// An engine with a policy of every kind, and a clock that the test holds.
#pragma once

#include <atomic>
#include <string_view>
#include <vector>

#include "server/engine/engine.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace pail::test {

// Ids of the policies of `limits_policies`.
enum Id : std::uint32_t {
  kBucket = 1,  // 1/s, burst 10, reserve 3 of priority 0
  kQueue,       // 10/s, burst 1, max_wait 500 ms
  kFixed,       // 10 a minute
  kSliding,     // 100 a minute
  kPermits,     // 10 at once, ttl 10 s
  kBudget,      // 100/s, burst 100, max_debt 50
  kDaily,       // 1000 a day, fixed, max_debt 100
  kScarce,      // 1 a day
  kMonthly,     // 5 a month from the 15th
};

inline std::vector<engine::PolicySpec> limits_policies() {
  using engine::Algorithm;
  using engine::WindowRule;
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  std::vector<engine::PolicySpec> all;
  const auto add = [&](std::string_view name, std::uint32_t id, Algorithm algorithm) -> auto& {
    all.emplace_back();
    all.back().name = name;
    all.back().id = id;
    all.back().algorithm = algorithm;
    return all.back();
  };
  auto& bucket = add("bucket", kBucket, Algorithm::token_bucket);
  bucket.rate = {kSecondNs, 1, 10};
  bucket.reserve = {3, 0, 0, 0};
  auto& queue = add("queue", kQueue, Algorithm::leaky_bucket);
  queue.rate = {kSecondNs, 10, 1};
  queue.max_wait_ns = kSecondNs / 2;
  auto& fixed = add("fixed", kFixed, Algorithm::fixed_window);
  fixed.limit = 10;
  fixed.window = WindowRule::every(60);
  auto& sliding = add("sliding", kSliding, Algorithm::sliding_window);
  sliding.limit = 100;
  sliding.window = WindowRule::every(60);
  auto& permits = add("permits", kPermits, Algorithm::concurrency);
  permits.limit = 10;
  permits.window = WindowRule::every(10);
  auto& budget = add("budget", kBudget, Algorithm::token_bucket);
  budget.rate = {kSecondNs, 100, 100};
  budget.max_debt = 50;
  auto& daily = add("daily", kDaily, Algorithm::fixed_window);
  daily.limit = 1000;
  daily.window = WindowRule::every(86'400);
  daily.max_debt = 100;
  auto& scarce = add("scarce", kScarce, Algorithm::token_bucket);
  scarce.rate = {86'400 * kSecondNs, 1, 1};
  auto& monthly = add("monthly", kMonthly, Algorithm::fixed_window);
  monthly.limit = 5;
  monthly.window = WindowRule::month(15);
  return all;
}

// Time is 2026-01-01 00:00 UTC plus `now`; a minute begins at each 60 s.
class LimitsFixture {
 public:
  LimitsFixture() = default;

  engine::Decision operator()(const engine::Request& request) {
    return decide(*worker, request, now);
  }
  engine::LayersDecision take_all(const std::vector<engine::Layer>& layers,
                                  std::uint8_t priority = 0) {
    engine::LayersDecision decision;
    worker->take_all(layers, priority, now, decision);
    return decision;
  }
  std::uint32_t left(std::uint32_t policy, std::string_view key) {
    return (*this)(with(engine::Action::peek, take(key, policy, 0))).remaining;
  }

  // Between threads: set while they rest.
  engine::Ticks now = 600 * kSecond;
  engine::Engine engine{{.policies = limits_policies()}};
  std::unique_ptr<engine::Worker> worker = enroll();

  [[nodiscard]] std::unique_ptr<engine::Worker> enroll() {
    return engine.enroll(
        {[](const void* self) noexcept { return static_cast<const LimitsFixture*>(self)->now; },
         this});
  }
};

inline engine::Layer layer(std::uint32_t policy, std::string_view key, std::uint32_t cost = 1) {
  return {policy, cost, bytes(key)};
}

}  // namespace pail::test
