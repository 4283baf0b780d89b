// Concurrency as arithmetic: how many permits are out, counted in rounds of one ttl.
//
// A permit is counted in the round in which it was given and lapses with the end of the next: after
// one to two ttls, so that what a crashed holder had comes back by itself. Holders stop at one ttl,
// counted from when they sent the request. Giving back and renewing name the round; what names
// another is ignored, since its permits have lapsed. paired_entries.hpp keeps the two rounds.
#pragma once

#include "server/engine/counted_word.hpp"

namespace pail::engine {

inline constexpr std::uint32_t kMaxPermitSeconds = 3600;

struct PermitUse {
  std::uint32_t previous = 0;
  std::uint32_t current = 0;
  Ticks left = 0;    // of this round
  Ticks length = 0;  // one ttl
};

[[nodiscard]] constexpr std::uint32_t room(const PermitUse& use, std::uint32_t most) noexcept {
  const std::uint64_t out = std::uint64_t{use.previous} + use.current;
  return most > out ? static_cast<std::uint32_t>(most - out) : 0;
}

// If nobody gives back or renews: the previous round's permits lapse with this round, this round's
// with the next.
[[nodiscard]] constexpr Ticks wait(const PermitUse& use, std::uint32_t most,
                                   std::uint32_t cost) noexcept {
  return most - cost >= use.current ? use.left : use.left + use.length;
}

[[nodiscard]] constexpr Ticks reset_after(const PermitUse& use) noexcept {
  if (use.current != 0) return use.left + use.length;
  return use.previous != 0 ? use.left : 0;
}

}  // namespace pail::engine
