// Concern: a local bucket admits its share of the limit and no more, over every interval, remembers
// a bounded number of keys, and never forgets one to grant it again. Method: a clock of our own.
#include "client/src/local_buckets.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "tests/support/random.hpp"

using namespace std::chrono_literals;
using pail::Decision;
using pail::Limit;
using pail::internal::LocalBuckets;
using pail::internal::Time;

namespace {

constexpr Time kStart{std::chrono::hours(1)};

Decision take(LocalBuckets& buckets, const Limit& limit, std::string_view key, Time now,
              std::uint32_t cost = 1, bool partial = false) {
  const LocalBuckets::Ask ask{&limit, key, cost};
  return buckets.take({&ask, 1}, partial, now);
}

}  // namespace

TEST_CASE("a share of rate and burst, and a truthful retry-after") {
  LocalBuckets buckets(64, 4, 1);
  const auto limit = Limit::rate(40, 1s, 20);  // a quarter: 10/s, 5 at once
  for (int i = 0; i < 5; ++i) CHECK(take(buckets, limit, "k", kStart).admitted());
  const Decision refused = take(buckets, limit, "k", kStart);
  CHECK(refused.retry_after == 100ms);
  CHECK_FALSE(take(buckets, limit, "k", kStart + refused.retry_after - 1ns).admitted());
  CHECK(take(buckets, limit, "k", kStart + refused.retry_after).admitted());
  const Decision part = take(buckets, limit, "k", kStart + 10s, 9, true);
  CHECK(part.granted == 5);
  CHECK(part.reset_after == 500ms);
  const Decision too_much = take(buckets, limit, "k", kStart + 10s, 9);
  CHECK(too_much.status == Decision::Status::denied);
  CHECK(too_much.retry_after == 500ms);
}

TEST_CASE("random demand over random limits stays within burst + rate x t") {
  pail::test::Random random(11);
  for (int round = 0; round < 200; ++round) {
    const auto count = 1 + static_cast<std::uint32_t>(random.below(1000));
    const auto burst = 1 + static_cast<std::uint32_t>(random.below(50));
    const auto gateways = 1 + static_cast<std::uint32_t>(random.below(6));
    const auto limit = Limit::rate(count, 1s, burst);
    LocalBuckets buckets(8, gateways, random.next());
    struct Admitted {
      std::int64_t at_ns;
      std::uint32_t tokens;
    };
    std::vector<Admitted> admitted;
    Time now = kStart;
    for (int i = 0; i < 200; ++i) {
      now += std::chrono::nanoseconds(random.below(20'000'000));
      const Decision decision =
          take(buckets, limit, "k", now, 1 + static_cast<std::uint32_t>(random.below(3)),
               random.one_in(2));
      if (decision.admitted()) admitted.push_back({(now - kStart).count(), decision.granted});
    }
    const double share = std::max<double>(burst / gateways, 1);  // NOLINT: whole tokens
    for (std::size_t from = 0; from < admitted.size(); ++from) {
      double sum = 0;
      for (std::size_t to = from; to < admitted.size(); ++to) {
        sum += admitted[to].tokens;
        const auto ns = static_cast<double>(admitted[to].at_ns - admitted[from].at_ns);
        REQUIRE(sum <= share + ns * count / 1e9 / gateways + 1e-6);
      }
    }
  }
}

TEST_CASE("a full memory refuses new keys, and grants no known one again") {
  LocalBuckets buckets(16, 1, 7);
  const auto once = Limit::rate(1, 1h, 1);
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) {
    admitted += take(buckets, once, "key" + std::to_string(i), kStart).admitted();
  }
  CHECK(admitted == 16);
  for (int i = 0; i < 1000; ++i) {
    CHECK_FALSE(take(buckets, once, "key" + std::to_string(i), kStart).admitted());
  }
  // Once they are full again, their places are free.
  CHECK(take(buckets, once, "another", kStart + 1h).admitted());
}

TEST_CASE("numbers at their limits, and numbers that change") {
  LocalBuckets buckets(8, 256, 3);
  const auto longest = Limit::rate(1, 366 * 24h, 0xFFFF'FFFFu);
  const Decision one = take(buckets, longest, "k", kStart);
  CHECK(one.admitted());
  CHECK(one.reset_after > 0ns);
  CHECK_FALSE(take(buckets, longest, "k", kStart + 366 * 24h).admitted());
  const auto fastest = Limit::rate(0xFFFF'FFFFu, 1ns, 0xFFFF'FFFFu);
  CHECK(take(buckets, fastest, "f", kStart, 1000).admitted());
  // From a token in centuries to one in a second: at most one wait of the new length.
  const auto changed = Limit::rate(256, 1s, 1);
  CHECK(take(buckets, changed, "k", kStart).retry_after <= 1s);
}

TEST_CASE("layers: all or none") {
  LocalBuckets buckets(64, 1, 5);
  const auto wide = Limit::policy("wide").with_numbers(1, 1h, 10);
  const auto narrow = Limit::policy("narrow").with_numbers(1, 1h, 2);
  const std::array<LocalBuckets::Ask, 2> asks{{{&wide, "k", 3}, {&narrow, "k", 1}}};
  CHECK(buckets.take(asks, false, kStart).granted == 4);
  CHECK(buckets.take(asks, false, kStart).admitted());
  const Decision refused = buckets.take(asks, false, kStart);
  CHECK_FALSE(refused.admitted());
  CHECK(refused.granted == 0);
  CHECK(take(buckets, wide, "k", kStart, 4).admitted());
}
