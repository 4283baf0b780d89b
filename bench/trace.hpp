// A recorded workload: one request a line, "key cost gap_us".
//
//   alice 1 0          the first request, at once
//   bob 3 250          250 us after the one before it
//
// The key is any word without white space, the cost a whole number of at least 1, the gap a number
// of microseconds, fractions allowed. Empty lines and those that begin with # are skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace pail::bench {

struct TraceEntry {
  std::uint64_t at_ns = 0;  // since the trace's beginning
  std::uint32_t key = 0;    // an index of Trace::keys
  std::uint32_t cost = 1;
};

struct Trace {
  static constexpr std::size_t kMaxEntries = 50'000'000;

  std::vector<TraceEntry> entries;  // at_ns never falls
  std::vector<std::string> keys;
};

// The error names the line and says what would be right.
[[nodiscard]] tl::expected<Trace, std::string> read_trace(std::istream& stream);
[[nodiscard]] tl::expected<Trace, std::string> read_trace_file(const std::string& path);

}  // namespace pail::bench
