// SipHash-c-d with a 128-bit result (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
// 2012; the 128-bit output is the authors' later addition to their reference code). Pure
// computation.
//
// The number of rounds is a parameter: 2-4 is what the official test vectors are for, 1-3 is what
// hash tables use (Rust, Python, Ruby). A state can be advanced over a prefix once and then copied
// for every message that begins with it, which makes a prefix free on the request path.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace pail::engine {

static_assert(std::endian::native == std::endian::little, "words are loaded as they lie in memory");

struct Hash128 {
  std::uint64_t first;  // bytes 0-7 of the result, little-endian
  std::uint64_t second;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

template <int kCompressionRounds, int kFinalRounds>
class SipHash128 {
 public:
  SipHash128(std::uint64_t key0, std::uint64_t key1) noexcept
      : v0_(key0 ^ 0x736f6d6570736575),
        v1_(key1 ^ 0x646f72616e646f6d ^ 0xee),
        v2_(key0 ^ 0x6c7967656e657261),
        v3_(key1 ^ 0x7465646279746573) {}

  // Absorbs a whole block of the message. All of them come before finish().
  void absorb(std::uint64_t block) noexcept {
    v3_ ^= block;
    for (int i = 0; i < kCompressionRounds; ++i) round();
    v0_ ^= block;
    length_ += 8;
  }

  static constexpr std::uint64_t kFirstMark = 0xee;   // added before the first half of the result
  static constexpr std::uint64_t kSecondMark = 0xdd;  // and before the second

  // The hash of everything absorbed and then `rest`. A copy does the work: the state can be used
  // again.
  [[nodiscard]] Hash128 finish(std::span<const std::byte> rest) const noexcept {
    SipHash128 state = *this;
    const std::byte* at = rest.data();
    for (std::size_t left = rest.size(); left >= 8; at += 8, left -= 8) state.absorb(load(at, 8));
    return state.close(last_block(rest));
  }

  // For those who do the rounds themselves, many messages at once (siphash_lanes.hpp).
  struct Words {
    std::uint64_t v0, v1, v2, v3;
  };
  [[nodiscard]] Words words() const noexcept { return {v0_, v1_, v2_, v3_}; }

  // The block that ends a message: its length, and the bytes of `rest` that fill no whole block.
  [[nodiscard]] std::uint64_t last_block(std::span<const std::byte> rest) const noexcept {
    const std::size_t left = rest.size() % 8;
    return (length_ + rest.size()) << 56 | (left == 0 ? 0 : load_tail(rest, left));
  }

  [[nodiscard]] static std::uint64_t load(const std::byte* at, std::size_t size) noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, at, size);
    return value;
  }

 private:
  // The last 1 to 7 bytes, without a branch for each: from a message of 8 or more, one load that
  // overlaps the block before.
  [[nodiscard]] static std::uint64_t load_tail(std::span<const std::byte> rest,
                                               std::size_t left) noexcept {
    if (rest.size() >= 8) return load(rest.data() + rest.size() - 8, 8) >> (8 * (8 - left));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < left; ++i)
      value |= std::to_integer<std::uint64_t>(rest[i]) << (8 * i);
    return value;
  }

  [[nodiscard]] Hash128 close(std::uint64_t block) noexcept {
    v3_ ^= block;
    for (int i = 0; i < kCompressionRounds; ++i) round();
    v0_ ^= block;
    v2_ ^= kFirstMark;
    for (int i = 0; i < kFinalRounds; ++i) round();
    Hash128 result;
    result.first = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= kSecondMark;
    for (int i = 0; i < kFinalRounds; ++i) round();
    result.second = v0_ ^ v1_ ^ v2_ ^ v3_;
    return result;
  }

  void round() noexcept {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32) + v3_;
    v2_ += v1_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t length_ = 0;
};

}  // namespace pail::engine
