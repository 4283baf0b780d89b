#include "server/engine/run_map.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace pail::engine {
namespace {

// Bits first to last - 1 of a word.
constexpr std::uint64_t mask_of(std::uint32_t first, std::uint32_t last) noexcept {
  return (~std::uint64_t{0} >> (64 - (last - first))) << first;
}

// Bit i of the result: `length` ones (at most 64) start at bit i of `ones`.
constexpr std::uint64_t starts_of(std::uint64_t ones, std::uint32_t length) noexcept {
  std::uint32_t covered = 1;
  while (covered < length && ones != 0) {
    const std::uint32_t more = std::min(covered, length - covered);
    ones &= ones >> more;
    covered += more;
  }
  return ones;
}

}  // namespace

RunMap::RunMap(std::uint32_t reserved) noexcept {
  std::uint32_t free = 64;
  for (std::uint32_t i = 2 * kWords - 1; i > 0; --i) {
    if (std::has_single_bit(i + 1) && i + 1 < 2 * kWords) free *= 2;
    nodes_[i].prefix = nodes_[i].suffix = nodes_[i].longest = static_cast<std::uint16_t>(free);
  }
  nodes_[0] = {};
  change(0, reserved, true);
  taken_ = reserved;
}

RunMap::Node RunMap::summary(std::uint64_t taken_bits) noexcept {
  const std::uint64_t free = ~taken_bits;
  std::uint16_t longest = 0;
  for (std::uint64_t rest = free; rest != 0; rest &= rest >> 1) ++longest;
  return {static_cast<std::uint16_t>(std::countr_one(free)),
          static_cast<std::uint16_t>(std::countl_one(free)), longest};
}

RunMap::Node RunMap::join(const Node& left, const Node& right, std::uint32_t half) noexcept {
  const std::uint32_t across = std::uint32_t{left.suffix} + right.prefix;
  return {static_cast<std::uint16_t>(left.prefix == half ? half + right.prefix : left.prefix),
          static_cast<std::uint16_t>(right.suffix == half ? half + left.suffix : right.suffix),
          static_cast<std::uint16_t>(
              std::max({std::uint32_t{left.longest}, std::uint32_t{right.longest}, across}))};
}

std::uint32_t RunMap::find(std::uint32_t length) const noexcept {
  std::uint32_t node = 1;
  std::uint32_t begin = 0;
  std::uint32_t size = kGranules;
  while (node < kWords) {
    const std::uint32_t half = size / 2;
    const Node& left = nodes_[2 * node];
    if (left.longest >= length) {
      node = 2 * node;
    } else if (std::uint32_t{left.suffix} + nodes_[2 * node + 1].prefix >= length) {
      return begin + half - left.suffix;
    } else {
      node = 2 * node + 1;
      begin += half;
    }
    size = half;
  }
  return begin +
         static_cast<std::uint32_t>(std::countr_zero(starts_of(~bits_[begin / 64], length)));
}

void RunMap::change(std::uint32_t first, std::uint32_t length, bool taken) noexcept {
  std::uint32_t low = first / 64;
  std::uint32_t high = (first + length - 1) / 64;
  for (std::uint32_t word = low; word <= high; ++word) {
    const std::uint32_t begin = std::max(first, word * 64) - word * 64;
    const std::uint32_t end = std::min(first + length, word * 64 + 64) - word * 64;
    const std::uint64_t mask = mask_of(begin, end);
    assert((bits_[word] & mask) == (taken ? 0 : mask));
    static_cast<void>(taken);
    bits_[word] ^= mask;
    nodes_[kWords + word] = summary(bits_[word]);
  }
  low += kWords;
  high += kWords;
  for (std::uint32_t half = 64; low > 1; half *= 2) {
    low /= 2;
    high /= 2;
    for (std::uint32_t node = low; node <= high; ++node) {
      nodes_[node] = join(nodes_[2 * node], nodes_[2 * node + 1], half);
    }
  }
}

std::uint32_t RunMap::take(std::uint32_t length) noexcept {
  assert(length != 0 && length <= longest_free());
  const std::uint32_t first = find(length);
  change(first, length, true);
  taken_ += length;
  return first;
}

void RunMap::give(std::uint32_t first, std::uint32_t length) noexcept {
  change(first, length, false);
  taken_ -= length;
}

bool RunMap::check_invariants() const noexcept {
  std::uint32_t taken = 0;
  for (std::uint32_t word = 0; word < kWords; ++word) {
    taken += static_cast<std::uint32_t>(std::popcount(bits_[word]));
    if (nodes_[kWords + word] != summary(bits_[word])) return false;
  }
  std::uint32_t half = kGranules / 2;
  for (std::uint32_t node = 1; node < kWords; ++node) {
    if (nodes_[node] != join(nodes_[2 * node], nodes_[2 * node + 1], half)) return false;
    if (std::has_single_bit(node + 1)) half /= 2;
  }
  return taken == taken_;
}

}  // namespace pail::engine
