// Concern: the cache of leases by itself: single use, expiry, sizes that follow demand, refusals,
// bounded memory, and many threads on one key that never spend a token twice. Method: a clock of
// our own; threads.
#include "client/src/lease_cache.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using pail::Decision;
using pail::internal::LeaseCache;
using pail::internal::Time;

namespace {

constexpr Time kStart{std::chrono::hours(1)};
constexpr std::uint32_t kPolicy = 7;

Decision admitted() {
  Decision decision;
  decision.status = Decision::Status::admitted;
  decision.limit = 1000;
  return decision;
}

std::optional<Decision> take(LeaseCache& cache, std::string_view key, Time now,
                             std::uint32_t cost = 1, std::uint8_t priority = 0) {
  bool is_hungry = false;
  return cache.take(kPolicy, key, cost, priority, now, is_hungry);
}

// Takes that the server decides until a lease is due; what is to be asked for.
LeaseCache::Errand errand_for(LeaseCache& cache, const std::string& key, Time now) {
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(cache.on_server_decision(kPolicy, key, 1, 0, admitted(), now));
  CHECK(cache.on_server_decision(kPolicy, key, 1, 0, admitted(), now));
  const auto errand = cache.next_errand(now);
  REQUIRE(errand.has_value());
  CHECK(errand->key == key);
  CHECK(errand->policy == kPolicy);
  CHECK_FALSE(cache.next_errand(now).has_value());
  return *errand;
}

LeaseCache::Lease lease(std::uint32_t granted, Time sent_at, std::chrono::nanoseconds ttl = 1s) {
  return {.grant = 99,
          .granted = granted,
          .remaining = 500,
          .limit = 1000,
          .ttl = ttl,
          .sent_at = sent_at};
}

}  // namespace

TEST_CASE("a lease is spent to its end, and not beyond its time") {
  LeaseCache cache(64, 1);
  CHECK_FALSE(take(cache, "k", kStart).has_value());
  const auto errand = errand_for(cache, "k", kStart);
  cache.on_lease(errand.slot, lease(3, kStart));
  const auto first = take(cache, "k", kStart);
  REQUIRE(first.has_value());
  CHECK(first->admitted());
  CHECK(first->source == Decision::Source::lease);
  CHECK(first->granted == 1);
  CHECK(first->limit == 1000);
  CHECK(first->remaining == 502);
  CHECK_FALSE(take(cache, "other", kStart).has_value());
  CHECK_FALSE(take(cache, "k", kStart, 3).has_value());
  CHECK(take(cache, "k", kStart + 999ms).has_value());
  CHECK_FALSE(take(cache, "k", kStart + 1s).has_value());
  (void)cache.sweep(kStart + 1s);
  const auto counters = cache.read();
  CHECK(counters.leased == 3);
  CHECK(counters.spent == 2);
  CHECK(counters.expired == 1);
}

TEST_CASE("the next lease is due when half is spent, and larger if that was early") {
  LeaseCache cache(64, 1);
  const auto errand = errand_for(cache, "k", kStart);
  cache.on_lease(errand.slot, lease(8, kStart));
  int hungry = 0;
  for (int i = 0; i < 5; ++i) {
    bool is_hungry = false;
    REQUIRE(cache.take(kPolicy, "k", 1, 0, kStart + 1ms, is_hungry).has_value());
    hungry += is_hungry;
  }
  CHECK(hungry == 1);
  const auto next = cache.next_errand(kStart + 1ms);
  REQUIRE(next.has_value());
  CHECK(next->tokens == 2 * errand.tokens);
  CHECK_FALSE(cache.next_errand(kStart + 1ms).has_value());
  cache.on_lease(next->slot, lease(2, kStart + 1ms));
  for (int i = 0; i < 5; ++i) CHECK(take(cache, "k", kStart + 2ms).has_value());
  CHECK_FALSE(take(cache, "k", kStart + 2ms).has_value());
}

TEST_CASE("of a lease that is not used, the next is smaller") {
  LeaseCache cache(64, 1);
  auto errand = errand_for(cache, "k", kStart);
  CHECK(errand.tokens == 16);
  cache.on_lease(errand.slot, lease(16, kStart));
  CHECK(take(cache, "k", kStart).has_value());
  (void)cache.sweep(kStart + 1s);
  errand = errand_for(cache, "k", kStart + 2s);
  CHECK(errand.tokens == 8);
}

TEST_CASE("a policy that is not leased is left alone for a while") {
  LeaseCache cache(64, 1);
  const auto errand = errand_for(cache, "k", kStart);
  cache.on_lease(errand.slot, lease(0, kStart, 0s));
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(cache.on_server_decision(kPolicy, "k", 1, 0, admitted(), kStart + 4s));
  }
  (void)errand_for(cache, "k", kStart + 6s);
}

TEST_CASE("a refusal of what is leased is remembered, and told truthfully") {
  LeaseCache cache(64, 1);
  const auto errand = errand_for(cache, "k", kStart);
  cache.on_lease(errand.slot, lease(1, kStart));
  CHECK(take(cache, "k", kStart).has_value());
  Decision denied = admitted();
  denied.status = Decision::Status::denied;
  denied.retry_after = 300ms;
  CHECK_FALSE(cache.on_server_decision(kPolicy, "k", 1, 0, denied, kStart));
  const auto refused = take(cache, "k", kStart + 100ms);
  REQUIRE(refused.has_value());
  CHECK_FALSE(refused->admitted());
  CHECK(refused->retry_after >= 200ms);
  CHECK(refused->retry_after < 201ms);
  CHECK_FALSE(take(cache, "k", kStart + 100ms, 1, 1).has_value());  // a higher priority may pass
  CHECK_FALSE(take(cache, "k", kStart + 300ms).has_value());
  // A long one is asked about again after a second, and never told to be shorter than it is.
  denied.retry_after = 1h;
  CHECK_FALSE(cache.on_server_decision(kPolicy, "k", 1, 0, denied, kStart + 1s));
  CHECK(take(cache, "k", kStart + 1900ms)->retry_after > 59min);
  CHECK_FALSE(take(cache, "k", kStart + 2s).has_value());
  // What five cost says nothing of one.
  denied.retry_after = 300ms;
  CHECK_FALSE(cache.on_server_decision(kPolicy, "k", 5, 0, denied, kStart + 3s));
  CHECK_FALSE(take(cache, "k", kStart + 3s).has_value());
  CHECK(cache.read().refusals == 2);
}

TEST_CASE("what is taken out to be returned cannot be spent") {
  LeaseCache cache(64, 1);
  const auto errand = errand_for(cache, "k", kStart);
  cache.on_lease(errand.slot, lease(10, kStart));
  CHECK(take(cache, "k", kStart, 4).has_value());
  const auto out = cache.take_out(kStart);
  REQUIRE(out.size() == 1);
  CHECK(out[0].tokens == 6);
  CHECK(out[0].grant == 99);
  CHECK(out[0].key == "k");
  CHECK_FALSE(take(cache, "k", kStart).has_value());
  cache.on_returned(5);
  const auto counters = cache.read();
  CHECK(counters.spent == 4);
  CHECK(counters.returned == 5);
  CHECK(counters.expired == 1);
}

TEST_CASE("a million keys: what is held is bounded, and a live lease keeps its place") {
  LeaseCache cache(64, 1);
  const auto errand = errand_for(cache, "hot", kStart);
  cache.on_lease(errand.slot, lease(100, kStart));
  std::size_t errands = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const std::string key = "key" + std::to_string(i);
    (void)cache.on_server_decision(kPolicy, key, 1, 0, admitted(), kStart);
    errands += cache.next_errand(kStart).has_value();
  }
  CHECK(errands == 0);
  CHECK(take(cache, "hot", kStart).has_value());
}

TEST_CASE("many threads on one key never spend a token twice") {
  LeaseCache cache(64, 1);
  auto errand = errand_for(cache, "k", kStart);
  std::atomic<std::uint64_t> spent{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (!is_over) {
        const auto decision = take(cache, "k", kStart);
        if (decision && decision->admitted()) spent += decision->granted;
      }
    });
  }
  // Leases of all sizes, some taken out again; `expiry` moves so that no word comes twice.
  std::uint64_t leased = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto granted = static_cast<std::uint32_t>(1 + i % 50);
    cache.on_lease(errand.slot, lease(granted, kStart + std::chrono::microseconds(100 * i)));
    leased += granted;
    if (i % 7 == 0) (void)cache.take_out(kStart);
  }
  while (cache.read().spent + cache.read().expired < leased) std::this_thread::yield();
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  const auto counters = cache.read();
  CHECK(counters.leased == leased);
  CHECK(counters.spent == spent);
  CHECK(counters.spent + counters.expired == leased);
}
