// What a run has to keep, as "p99=1ms,p99.9=5ms": a build fails by it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "bench/histogram.hpp"

namespace pail::bench {

struct Objective {
  double percent = 0;  // above 0, at most 100: the maximum
  std::uint64_t limit_ns = 0;
};

// "p99=1ms", several with commas between them; "max" is p100. The error is for the user.
[[nodiscard]] tl::expected<std::vector<Objective>, std::string> parse_objectives(
    std::string_view text);

// One line for each objective that was missed; a run without any latency misses all.
[[nodiscard]] std::vector<std::string> missed(const std::vector<Objective>& objectives,
                                              const Histogram& latencies_ns);

}  // namespace pail::bench
