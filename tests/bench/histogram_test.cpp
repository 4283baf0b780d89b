// Concern: percentiles are never too small and at most 0.8 % too large, over all of 64 bits.
// Method: the edges of buckets; random values against a sorted vector of them.
#include "bench/histogram.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "bench/random.hpp"
#include "tests/support/random.hpp"

namespace pail::bench {
namespace {

using Layout = HistogramLayout;
constexpr std::uint64_t kMax = ~std::uint64_t{0};

TEST_CASE("buckets follow one another without gap or overlap") {
  CHECK(Layout::lowest_in(0) == 0);
  for (std::size_t i = 0; i + 1 < Layout::kBuckets; ++i) {
    REQUIRE(Layout::highest_in(i) + 1 == Layout::lowest_in(i + 1));
    REQUIRE(Layout::bucket_of(Layout::lowest_in(i)) == i);
    REQUIRE(Layout::bucket_of(Layout::highest_in(i)) == i);
  }
  CHECK(Layout::highest_in(Layout::kBuckets - 1) == kMax);
}

TEST_CASE("small values are exact") {
  Histogram histogram;
  for (std::uint64_t value = 1; value <= 100; ++value) histogram.record(value);
  CHECK(histogram.total() == 100);
  CHECK(histogram.percentile(50) == 50);
  CHECK(histogram.percentile(99) == 99);
  CHECK(histogram.percentile(99.1) == 100);
  CHECK(histogram.percentile(100) == 100);
  CHECK(histogram.percentile(0) == 1);
}

TEST_CASE("nothing recorded reads as 0") {
  const Histogram histogram;
  CHECK(histogram.total() == 0);
  CHECK(histogram.percentile(50) == 0);
  CHECK(histogram.percentile(100) == 0);
  CHECK(histogram.count_above(0) == 0);
}

TEST_CASE("the largest value is kept, not clipped") {
  Histogram histogram;
  histogram.record(0);
  histogram.record(kMax);
  CHECK(histogram.percentile(50) == 0);
  CHECK(histogram.percentile(100) == kMax);
}

TEST_CASE("percentiles of random values against their sorted list") {
  const std::uint64_t seed = test::seed();
  CAPTURE(seed);
  Random random(seed);
  Histogram histogram;
  std::vector<std::uint64_t> values(10'000);
  for (auto& value : values) {
    value = random.next() >> random.below(64);  // every magnitude
    histogram.record(value);
  }
  std::sort(values.begin(), values.end());
  for (const double percent : {0.1, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(10'000 * percent / 100));
    const std::uint64_t exact = values[rank - 1];
    const std::uint64_t read = histogram.percentile(percent);
    CAPTURE(percent);
    CHECK(read >= exact);
    CHECK(read - exact <= exact / 128);
  }
}

TEST_CASE("merge adds and since takes away") {
  Histogram a, b;
  for (std::uint64_t i = 0; i < 10; ++i) a.record(10);
  for (std::uint64_t i = 0; i < 30; ++i) b.record(20);
  const Histogram before = a;
  a.merge(b);
  CHECK(a.total() == 40);
  CHECK(a.percentile(25) == 10);
  CHECK(a.percentile(26) == 20);
  const Histogram added = a.since(before);
  CHECK(added.total() == 30);
  CHECK(added.percentile(0) == 20);
}

TEST_CASE("count_above counts whole buckets above the limit") {
  Histogram histogram;
  histogram.record(900'000);
  histogram.record(1'000'000);
  histogram.record(1'100'000);
  CHECK(histogram.count_above(1'000'000) == 1);
  CHECK(histogram.count_above(0) == 3);
  CHECK(histogram.count_above(kMax) == 0);
}

TEST_CASE("a live histogram reads like a plain one") {
  LiveHistogram live;
  Histogram plain;
  for (std::uint64_t value = 0; value < 100'000; value += 7) {
    live.record(value);
    plain.record(value);
  }
  const Histogram copy = live.snapshot();
  CHECK(copy.total() == plain.total());
  for (const double percent : {1.0, 50.0, 99.0, 100.0}) {
    CHECK(copy.percentile(percent) == plain.percentile(percent));
  }
}

}  // namespace
}  // namespace pail::bench
