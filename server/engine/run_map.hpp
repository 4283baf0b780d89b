// Which runs of a chunk's 64-byte granules are free: a bit a granule, and above the bits a binary
// tree whose nodes know the longest free run below them. So the lowest free run of a length is
// found, and taken, in one walk down and one walk up.
//
// One thread at a time (the arena's holder). Plain memory; it lives at the start of the chunk that
// it describes, so making and dropping it costs no other memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pail::engine {

class RunMap {
 public:
  static constexpr std::uint32_t kGranules = 32768;

  // The first `reserved` granules are taken for good: where the map itself lies.
  explicit RunMap(std::uint32_t reserved) noexcept;

  [[nodiscard]] std::uint32_t longest_free() const noexcept { return nodes_[1].longest; }
  [[nodiscard]] std::uint32_t taken() const noexcept { return taken_; }

  // The first granule of the lowest free run of `length`; there must be one.
  [[nodiscard]] std::uint32_t take(std::uint32_t length) noexcept;
  // A run that was taken, whole.
  void give(std::uint32_t first, std::uint32_t length) noexcept;

  // Whether the tree says what the bits say. For tests.
  [[nodiscard]] bool check_invariants() const noexcept;

 private:
  static constexpr std::uint32_t kWords = kGranules / 64;

  // Free granules at the start, at the end, and the most in a row.
  struct Node {
    std::uint16_t prefix, suffix, longest;
    friend bool operator==(const Node&, const Node&) = default;
  };

  static Node summary(std::uint64_t taken_bits) noexcept;
  static Node join(const Node& left, const Node& right, std::uint32_t half) noexcept;
  [[nodiscard]] std::uint32_t find(std::uint32_t length) const noexcept;
  void change(std::uint32_t first, std::uint32_t length, bool taken) noexcept;

  std::array<std::uint64_t, kWords> bits_{};  // 1: taken
  std::array<Node, 2 * kWords> nodes_;  // node i has the children 2i and 2i + 1; 1 is the root
  std::uint32_t taken_ = 0;
};

}  // namespace pail::engine
