// The arrays of one run: where they lie, what each of their cells is, and which are freed. A freed
// array is never used again in that run, so that every later touch is noticed; what is left in it
// is garbage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "server/engine/table_types.hpp"

namespace pail::model {

class Arena {
 public:
  static constexpr std::size_t kMaxArrays = 24;
  static constexpr std::size_t kArrayBytes = 256;  // a header, and slots as many as may be

  enum class Cell : std::uint8_t { elsewhere, next, header, print, word };

  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void clear() noexcept;
  // As it is now is what go_back() makes of it.
  void keep() noexcept;
  void go_back() noexcept;

  // nullptr if the memory limit refuses; limits as in ArrayMemory, counted in arrays.
  [[nodiscard]] void* allocate(std::size_t bytes, engine::Need need, std::size_t most) noexcept;
  void release(void* array) noexcept;

  [[nodiscard]] bool contains(const void* cell) const noexcept { return offset(cell) < kBytes; }
  [[nodiscard]] Cell kind(const void* cell) const noexcept;
  [[nodiscard]] bool is_freed(const void* cell) const noexcept {
    return contains(cell) && state_.freed[offset(cell) / kArrayBytes];
  }
  [[nodiscard]] std::size_t in_use() const noexcept { return state_.in_use; }
  [[nodiscard]] bool is_exhausted() const noexcept { return state_.made == kMaxArrays; }
  // Whose word that is: the print beside it.
  [[nodiscard]] std::uint64_t print_of_word(const void* word) const noexcept;
  // Entries of a print that are not frozen, in all arrays.
  [[nodiscard]] unsigned unfrozen(std::uint64_t print) const noexcept;
  // Empty, or why the step from one value to another is never right.
  [[nodiscard]] std::string_view find_fault(const void* cell, std::uint64_t from,
                                            std::uint64_t to) const noexcept;
  // Whether a cell of that value keeps it for ever.
  [[nodiscard]] bool is_final(const void* cell, std::uint64_t value) const noexcept;

  [[nodiscard]] std::uint64_t hash() const noexcept;
  [[nodiscard]] std::string describe(const void* cell) const;

 private:
  static constexpr std::size_t kBytes = kMaxArrays * kArrayBytes;

  struct State {
    std::size_t made = 0;
    std::size_t in_use = 0;
    std::array<std::uint16_t, kMaxArrays> bytes{};
    std::array<bool, kMaxArrays> freed{};
  };

  [[nodiscard]] std::size_t offset(const void* cell) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(cell) - base_);
  }
  [[nodiscard]] std::uint64_t value_at(std::size_t offset) const noexcept;

  std::byte* base_ = nullptr;
  State state_;
  std::byte* kept_ = nullptr;
  State kept_state_;
};

// For hashes of states.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93;
  return x ^ (x >> 32);
}

}  // namespace pail::model
