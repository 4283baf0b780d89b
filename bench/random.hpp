// A fast random stream: splitmix64 (Steele, Lea, Flood 2014). Every seed gives a good stream of its
// own, a number costs about a nanosecond. For load, never for secrets.
#pragma once

#include <cstdint>

namespace pail::bench {

class Random {
 public:
  explicit constexpr Random(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept {
    state_ += 0x9E37'79B9'7F4A'7C15ull;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBull;
    return x ^ (x >> 31);
  }
  // Below `bound`, by multiplication: the bias is at most bound / 2^32, without a division.
  constexpr std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }
  // In [0, 1).
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

// An independent seed for stream number `index` of a run.
[[nodiscard]] constexpr std::uint64_t derive_seed(std::uint64_t seed,
                                                  std::uint64_t index) noexcept {
  return Random(seed ^ (index * 0xD6E8'FEB8'6659'FD93ull)).next();
}

}  // namespace pail::bench
