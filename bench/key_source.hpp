// Which key comes next, and what it looks like.
//
// Keys are numbered from 0. Number 0xBEEF of 16 bytes reads "pail-key0000beef": letters, then the
// number in hexadecimal, written by a handful of instructions per request and no division.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "bench/random.hpp"

namespace pail::bench {

struct Distribution {
  enum class Kind : std::uint8_t { uniform, zipf, hot, sequential };
  Kind kind = Kind::uniform;
  double exponent = 0;  // of zipf, in (0, 1)
};

// "uniform", "hot" (one key), "zipf:0.99" or "zipf" (which is zipf:0.99), "sequential" (every key
// in turn, each thread by itself). The error is for the user.
[[nodiscard]] tl::expected<Distribution, std::string> parse_distribution(std::string_view text);
[[nodiscard]] std::string format_distribution(const Distribution& distribution);

// Draws key numbers below `keys`. Used by one thread.
class KeySource {
 public:
  KeySource(const Distribution& distribution, std::uint32_t keys, std::uint64_t seed);

  std::uint32_t next() noexcept {
    if (kind_ == Distribution::Kind::uniform) [[likely]]
      return random_.below(keys_);
    if (kind_ == Distribution::Kind::hot) return 0;
    if (kind_ == Distribution::Kind::sequential) {
      const std::uint32_t key = sequential_;
      sequential_ = key + 1 < keys_ ? key + 1 : 0;
      return key;
    }
    const std::uint32_t key = drawn_[position_];
    position_ = (position_ + 1) & (kDrawn - 1);
    return key;
  }

 private:
  // A zipf number costs a power; so this many are drawn beforehand and used in turn. They are read
  // in order, which the hardware prefetches.
  static constexpr std::size_t kDrawn = std::size_t{1} << 20;

  Distribution::Kind kind_;
  std::uint32_t keys_;
  Random random_;
  std::vector<std::uint32_t> drawn_;
  std::size_t position_ = 0;
  std::uint32_t sequential_ = 0;
};

inline constexpr std::size_t kKeyDigits = 8;

// `number` in hexadecimal, the most significant digit first.
inline void write_digits(std::uint32_t number, std::byte* out) noexcept {
  std::uint64_t x = __builtin_bswap32(number);     // the first byte shall hold the highest digits
  x = ((x << 16) | x) & 0x0000'FFFF'0000'FFFFull;  // spread: one byte to every two
  x = ((x << 8) | x) & 0x00FF'00FF'00FF'00FFull;
  x = ((x >> 4) & 0x000F'000F'000F'000Full) | ((x & 0x000F'000F'000F'000Full) << 8);
  const std::uint64_t letters = ((x + 0x0606'0606'0606'0606ull) >> 4) & 0x0101'0101'0101'0101ull;
  x += 0x3030'3030'3030'3030ull + letters * ('a' - '0' - 10);
  std::memcpy(out, &x, kKeyDigits);
}

// How many of the digits a key of this size has, and how many keys can be told apart by them.
[[nodiscard]] constexpr std::size_t digits_in(std::size_t key_size_bytes) noexcept {
  return key_size_bytes < kKeyDigits ? key_size_bytes : kKeyDigits;
}
[[nodiscard]] constexpr std::uint64_t distinct_keys(std::size_t key_size_bytes) noexcept {
  return std::uint64_t{1} << (4 * digits_in(key_size_bytes));
}

// Writes the digits of a key that ends at `end` and has digits_in() of them.
inline void write_key_digits(std::uint32_t number, std::byte* end, std::size_t digits) noexcept {
  if (digits == kKeyDigits) [[likely]] {
    write_digits(number, end - kKeyDigits);
    return;
  }
  std::byte all[kKeyDigits];
  write_digits(number, all);
  std::memcpy(end - digits, all + kKeyDigits - digits, digits);
}

// What fills a key in front of its digits.
[[nodiscard]] std::string key_filler(std::size_t key_size_bytes);

}  // namespace pail::bench
