// Random numbers for tests: fast, the same everywhere, and repeatable. The seed is printed, and
// taken from PAIL_SEED where that is set.
#pragma once

#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace pail::test {

// One for the whole process.
inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* given = std::getenv("PAIL_SEED");
    const auto ticks = std::chrono::system_clock::now().time_since_epoch().count();
    const std::uint64_t chosen =
        given != nullptr ? std::strtoull(given, nullptr, 0) : static_cast<std::uint64_t>(ticks);
    std::printf("PAIL_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return value;
}

// SplitMix64 (Steele, Lea and Flood, 2014).
class Random {
 public:
  // `stream` tells several generators of one test apart.
  explicit Random(std::uint64_t stream = 0) : state_(seed() ^ (stream * 0xD1B54A32D192ED03)) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  }

  // 0 to n - 1, near enough to uniform for a test; n is at least 1.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return high - low == ~std::uint64_t{0} ? next() : low + below(high - low + 1);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

  // low to high with every order of magnitude equally likely; low is at least 1.
  std::uint64_t magnitude(std::uint64_t low, std::uint64_t high) {
    const auto bits =
        static_cast<unsigned>(between(static_cast<std::uint64_t>(std::bit_width(low)),
                                      static_cast<std::uint64_t>(std::bit_width(high))));
    const std::uint64_t top = std::uint64_t{1} << (bits - 1);
    const std::uint64_t value = top | (next() & (top - 1));
    return value < low ? low : value > high ? high : value;
  }

 private:
  std::uint64_t state_;
};

}  // namespace pail::test
