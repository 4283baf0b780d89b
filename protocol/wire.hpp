// Fixed-width little-endian fields at any alignment. memcpy compiles to one move.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pail::protocol::wire {

// The wire is little-endian and so is every machine that Pail is built for; a port to another adds
// the byte swaps here, and nowhere else.
static_assert(std::endian::native == std::endian::little);

template <class Unsigned>
[[nodiscard]] inline Unsigned load(const std::byte* at) noexcept {
  Unsigned value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class Unsigned>
inline void store(std::byte* at, Unsigned value) noexcept {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace pail::protocol::wire
