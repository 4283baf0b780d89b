// Engine time: sixteenths of a nanosecond since the server's epoch.
//
// A tick is small enough that a token's interval, rounded up to whole ticks, loses at most 0.006%
// of a rate of a million a second; and 64 bits of them last long enough (13.7 years of server time,
// and 4.5 years of debt on top) that no sum on the request path can overflow. Pure values; no clock
// here.
#pragma once

#include <cstdint>

namespace pail::engine {

using Ticks = std::uint64_t;

// All state of one key under one policy. 0 is a fresh key, a word <= now is idle, and takes only
// raise it.
using Word = std::uint64_t;

inline constexpr Ticks kTicksPerNs = 16;

// A limit may reach this far into the future (4.5 years): the longest debt that a word can express.
inline constexpr Ticks kMaxHorizon = Ticks{1} << 61;

// Words stay below 2^63, because bit 63 is the table's own; so this is the last moment of a
// server's life.
inline constexpr Ticks kMaxNow = (Ticks{1} << 63) - kMaxHorizon - 1;

// 0 is what a fresh word holds, so time starts one tick later.
inline constexpr Ticks kMinNow = 1;

static_assert(kMaxNow + kMaxHorizon < Ticks{1} << 63);

[[nodiscard]] constexpr Ticks ticks_from_ns(std::uint64_t ns) noexcept {
  return ns > kMaxNow / kTicksPerNs ? kMaxNow : ns * kTicksPerNs;
}

// Rounded up, because a caller who waits for what we say must not come too early.
[[nodiscard]] constexpr std::uint64_t ns_rounded_up(Ticks ticks) noexcept {
  return ticks / kTicksPerNs + (ticks % kTicksPerNs != 0 ? 1 : 0);
}

// At the end of its time a server's clock stands still: refusing too much, never too little.
[[nodiscard]] constexpr Ticks usable_now(Ticks now) noexcept {
  return now < kMinNow ? kMinNow : now > kMaxNow ? kMaxNow : now;
}

}  // namespace pail::engine
