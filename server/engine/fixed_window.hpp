// The fixed window as arithmetic: a count that starts anew in each aligned window. One entry a key,
// which lives as long as its window.
//
// Exact within a window. Around a boundary a caller may have the end of one and the beginning of
// the next: up to twice the limit in a time as short as you like. That is what the algorithm is; a
// bucket or a sliding window does not do it.
#pragma once

#include "server/engine/counted_word.hpp"

namespace pail::engine {

struct FixedUse {
  std::uint32_t count = 0;
  Ticks left = 0;  // of the window
};

[[nodiscard]] constexpr std::uint32_t room(const FixedUse& use, std::uint32_t most) noexcept {
  return most > use.count ? most - use.count : 0;
}
[[nodiscard]] constexpr Ticks wait(const FixedUse& use, std::uint32_t, std::uint32_t) noexcept {
  return use.left;
}
[[nodiscard]] constexpr Ticks reset_after(const FixedUse& use) noexcept {
  return use.count == 0 ? 0 : use.left;
}

}  // namespace pail::engine
