// What growing costs: an engine filled with new keys at full speed from empty, every batch timed,
// the memory of the process sampled on the way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "bench/histogram.hpp"

namespace pail::bench {

struct GrowthOptions {
  std::uint32_t keys = 20'000'000;
  std::uint32_t threads = 1;
  int pin_cpu = 0;  // of the first thread; -1: not pinned
};

// A turn is a batch of 16 new keys and the housekeeping that follows it: as long as a request of
// this batch may have to wait.
struct GrowthResult {
  std::uint32_t keys = 0;
  std::uint32_t threads = 0;
  double seconds = 0;
  Histogram growing_ns;  // turns that put in new keys
  Histogram steady_ns;  // as many turns afterwards, on keys that are there: the machine's own noise
  // Of the turns above 1 ms, those that this thread spent running and not waiting for a core.
  std::uint64_t stalls = 0;         // while growing
  std::uint64_t steady_stalls = 0;  // afterwards
  // Resident memory of the process above what it was before, a live key; sampled at every 1/64 of
  // the keys from 1 M on, or from half of the keys if they are fewer.
  double bytes_a_key_mean = 0;
  double bytes_a_key_most = 0;
  double bytes_a_key_last = 0;
};

inline constexpr std::uint64_t kStallNs = 1'000'000;

[[nodiscard]] tl::expected<GrowthResult, std::string> measure_growth(const GrowthOptions& options);

// Resident memory of this process, in bytes; 0 if /proc cannot tell.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace pail::bench
