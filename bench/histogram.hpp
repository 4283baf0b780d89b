// Log-linear histogram of 64-bit values: exact below 128, then 128 buckets a power of two, so that
// a bucket is never wider than 0.8 % of its values. The range is all of 64 bits: nothing is
// clipped.
//
// Histogram is a plain value for one thread. LiveHistogram is for a generator that records while
// another thread draws the live line: one writer, any readers, wait-free, no lock and no fence.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace pail::bench {

struct HistogramLayout {
  static constexpr unsigned kSubBucketBits = 7;
  static constexpr std::uint64_t kSubBuckets = std::uint64_t{1} << kSubBucketBits;
  static constexpr std::size_t kBuckets = (64 - kSubBucketBits + 1) * kSubBuckets;

  [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
    if (value < kSubBuckets) return static_cast<std::size_t>(value);
    const unsigned exponent = 63 - static_cast<unsigned>(std::countl_zero(value));
    const unsigned shift = exponent - kSubBucketBits;
    return static_cast<std::size_t>(((shift + 1) * kSubBuckets) +
                                    ((value >> shift) & (kSubBuckets - 1)));
  }
  // The smallest and the largest value of a bucket.
  [[nodiscard]] static constexpr std::uint64_t lowest_in(std::size_t bucket) noexcept {
    if (bucket < kSubBuckets) return bucket;
    const std::uint64_t shift = (bucket >> kSubBucketBits) - 1;
    return (kSubBuckets + (bucket & (kSubBuckets - 1))) << shift;
  }
  [[nodiscard]] static constexpr std::uint64_t highest_in(std::size_t bucket) noexcept {
    if (bucket < kSubBuckets) return bucket;
    const std::uint64_t shift = (bucket >> kSubBucketBits) - 1;
    return lowest_in(bucket) + ((std::uint64_t{1} << shift) - 1);
  }
};
static_assert(HistogramLayout::bucket_of(~std::uint64_t{0}) == HistogramLayout::kBuckets - 1);
static_assert(HistogramLayout::highest_in(HistogramLayout::kBuckets - 1) == ~std::uint64_t{0});

class Histogram {
 public:
  void record(std::uint64_t value) noexcept { add_to_bucket(Layout::bucket_of(value), 1); }

  void merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < Layout::kBuckets; ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
  }
  // What was recorded since `earlier`, a previous state of this histogram.
  [[nodiscard]] Histogram since(const Histogram& earlier) const noexcept {
    Histogram difference;
    for (std::size_t i = 0; i < Layout::kBuckets; ++i) {
      difference.counts_[i] = counts_[i] - earlier.counts_[i];
    }
    difference.total_ = total_ - earlier.total_;
    return difference;
  }

  [[nodiscard]] std::uint64_t total() const noexcept { return total_; }

  // The value that `percent` of all values do not exceed, as the upper end of its bucket (so never
  // too small, and at most 0.8 % too large). 100 gives the maximum. 0 if nothing was recorded.
  [[nodiscard]] std::uint64_t percentile(double percent) const noexcept {
    if (total_ == 0) return 0;
    const double exact = std::ceil(static_cast<double>(total_) * percent / 100.0);
    const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(exact), 1, total_);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < Layout::kBuckets; ++i) {
      seen += counts_[i];
      if (seen >= rank) return Layout::highest_in(i);
    }
    return 0;  // Not reached: the counts add up to the total.
  }

  // Values above `limit`, by buckets: those of the limit's own bucket do not count.
  [[nodiscard]] std::uint64_t count_above(std::uint64_t limit) const noexcept {
    std::uint64_t count = 0;
    for (std::size_t i = Layout::bucket_of(limit) + 1; i < Layout::kBuckets; ++i) {
      count += counts_[i];
    }
    return count;
  }

  struct Moments {
    double mean = 0, deviation = 0;
  };
  // By the middles of the buckets.
  [[nodiscard]] Moments mean_and_deviation() const noexcept {
    if (total_ == 0) return {};
    const auto sum_of = [this](auto term) {
      double sum = 0;
      for (std::size_t i = 0; i < Layout::kBuckets; ++i) {
        if (counts_[i] == 0) continue;
        const double low = static_cast<double>(Layout::lowest_in(i));
        const double middle = low + (static_cast<double>(Layout::highest_in(i)) - low) / 2;
        sum += static_cast<double>(counts_[i]) * term(middle);
      }
      return sum / static_cast<double>(total_);
    };
    const double mean = sum_of([](double value) { return value; });
    const double variance =
        sum_of([mean](double value) { return (value - mean) * (value - mean); });
    return {mean, std::sqrt(variance)};
  }

  void add_to_bucket(std::size_t bucket, std::uint64_t count) noexcept {
    counts_[bucket] += count;
    total_ += count;
  }

 private:
  using Layout = HistogramLayout;
  std::array<std::uint64_t, Layout::kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

class LiveHistogram {
 public:
  // By the one writer. Relaxed: a reader wants numbers that are about right, in no order.
  void record(std::uint64_t value) noexcept {
    auto& count = counts_[HistogramLayout::bucket_of(value)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // By anyone; exact once the writer has been joined.
  [[nodiscard]] Histogram snapshot() const noexcept {
    Histogram copy;
    for (std::size_t i = 0; i < HistogramLayout::kBuckets; ++i) {
      copy.add_to_bucket(i, counts_[i].load(std::memory_order_relaxed));
    }
    return copy;
  }

 private:
  std::array<std::atomic<std::uint64_t>, HistogramLayout::kBuckets> counts_{};
};

}  // namespace pail::bench
