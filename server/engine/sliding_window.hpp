// The sliding window as arithmetic: this window's count, and the previous one's, weighted by how
// much of it the last `length` still overlap.
//
//     previous window        this window
//   |----------------------|------------|---------|
//               |<------ length ------>|now        |
//               |<- left ->|                        weight of the previous count: left / length
//
//   admit iff  previous x left + (current + cost) x length <= limit x length
//
// in 128-bit integers, so nothing is rounded. Over any time t at most limit + limit x t / length
// are admitted, in one window's length at worst 2 x limit - 1. Each entry lives one window longer
// than its window does; paired_entries.hpp keeps the two.
#pragma once

#include "server/engine/counted_word.hpp"

namespace pail::engine {

struct SlidingUse {
  std::uint32_t previous = 0;
  std::uint32_t current = 0;
  Ticks left = 0;  // of this window, 1 to length
  Ticks length = 0;
};

[[nodiscard]] constexpr std::uint32_t room(const SlidingUse& use, std::uint32_t most) noexcept {
  using detail::Wide;
  const Wide used = Wide{use.previous} * use.left + Wide{use.current} * use.length;
  const Wide all = Wide{most} * use.length;
  return used >= all ? 0 : static_cast<std::uint32_t>((all - used) / use.length);
}

// In this window, if it can be: when previous x (left - wait) is down to what the current count
// leaves. Else in the next, where the current count is the previous one.
[[nodiscard]] constexpr Ticks wait(const SlidingUse& use, std::uint32_t most,
                                   std::uint32_t cost) noexcept {
  using detail::Wide;
  if (most - cost >= use.current) {
    const Wide allowed = Wide{most - cost - use.current} * use.length / use.previous;
    return use.left - static_cast<Ticks>(allowed);
  }
  const Wide allowed = Wide{most - cost} * use.length / use.current;
  return use.left + use.length - static_cast<Ticks>(allowed);
}

[[nodiscard]] constexpr Ticks reset_after(const SlidingUse& use) noexcept {
  if (use.current != 0) return use.left + use.length;
  return use.previous != 0 ? use.left : 0;
}

}  // namespace pail::engine
