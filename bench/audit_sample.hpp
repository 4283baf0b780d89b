// What the audit knows of one request: tokens that a reply granted, and when at the earliest and at
// the latest the server can have decided so.
#pragma once

#include <cstdint>

namespace pail::bench {

struct Grant {
  std::uint64_t sent_ns = 0;      // before the request was handed to the kernel
  std::uint64_t received_ns = 0;  // after its reply was read; both of CLOCK_MONOTONIC
  std::uint32_t key = 0;
  std::uint32_t tokens = 0;
};
static_assert(sizeof(Grant) == 24);

// Of a whole run: 0.75 GB. A run that grants more is refused an audit, not audited in part.
inline constexpr std::uint64_t kMaxGrants = 32'000'000;

}  // namespace pail::bench
