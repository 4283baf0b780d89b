#include "tests/model/arena.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "server/engine/table_array.hpp"
#include "tests/model/traits.hpp"

namespace pail::model {
namespace {

using Array = engine::Array<Traits>;

constexpr std::size_t kHeaderBytes = sizeof(Array);
constexpr std::size_t kSlotBytes = sizeof(engine::Slot<Traits>);
static_assert(kHeaderBytes + kMaxSlots * kSlotBytes <= Arena::kArrayBytes);
static_assert(kSlotBytes == 16 && sizeof(Atomic<std::uint64_t>) == 8);

}  // namespace

Arena::Arena()
    : base_(static_cast<std::byte*>(std::aligned_alloc(kArrayBytes, kBytes))),
      kept_(static_cast<std::byte*>(std::aligned_alloc(kArrayBytes, kBytes))) {
  if (base_ == nullptr || kept_ == nullptr) throw std::bad_alloc();
  clear();
}

Arena::~Arena() {
  std::free(base_);
  std::free(kept_);
}

void Arena::clear() noexcept {
  std::memset(base_, 0, kBytes);
  state_ = {};
}

void Arena::keep() noexcept {
  std::memcpy(kept_, base_, kBytes);
  kept_state_ = state_;
}

void Arena::go_back() noexcept {
  std::memcpy(base_, kept_, state_.made * kArrayBytes);
  state_ = kept_state_;
}

void* Arena::allocate(std::size_t bytes, engine::Need need, std::size_t most) noexcept {
  if (need == engine::Need::reclaim) ++most;
  if ((need != engine::Need::copy && state_.in_use >= most) || bytes > kArrayBytes ||
      is_exhausted()) {
    return nullptr;
  }
  state_.bytes[state_.made] = static_cast<std::uint16_t>(bytes);
  ++state_.in_use;
  return base_ + state_.made++ * kArrayBytes;
}

void Arena::release(void* array) noexcept {
  const std::size_t at = offset(array);
  state_.freed[at / kArrayBytes] = true;
  --state_.in_use;
  std::memset(base_ + at, 0xDB, kArrayBytes);
}

Arena::Cell Arena::kind(const void* cell) const noexcept {
  if (!contains(cell)) return Cell::elsewhere;
  const std::size_t inside = offset(cell) % kArrayBytes;
  if (inside < kHeaderBytes) return inside == offsetof(Array, next) ? Cell::next : Cell::header;
  return (inside - kHeaderBytes) % kSlotBytes == 0 ? Cell::print : Cell::word;
}

std::uint64_t Arena::value_at(std::size_t offset) const noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, base_ + offset, sizeof value);
  return value;
}

std::uint64_t Arena::print_of_word(const void* word) const noexcept {
  return value_at(offset(word) - sizeof(std::uint64_t));
}

unsigned Arena::unfrozen(std::uint64_t print) const noexcept {
  unsigned count = 0;
  for (std::size_t array = 0; array < state_.made; ++array) {
    if (state_.freed[array]) continue;
    const std::size_t begin = array * kArrayBytes;
    for (std::size_t at = begin + kHeaderBytes; at < begin + state_.bytes[array];
         at += kSlotBytes) {
      count += value_at(at) == print && (value_at(at + 8) & engine::kFrozen) == 0 ? 1U : 0U;
    }
  }
  return count;
}

std::string_view Arena::find_fault(const void* cell, std::uint64_t from,
                                   std::uint64_t to) const noexcept {
  switch (kind(cell)) {
    case Cell::next:
      return from != 0 ? "a next array is replaced" : "";
    case Cell::print:
      return from != engine::kEmpty ? "a slot changes its owner" : "";
    case Cell::word:
      if ((from & engine::kFrozen) != 0) return "a frozen word changes";
      // The flaw that does this is left to do its harm.
      if (setting().flaw == engine::Flaw::reset_to_zero) return "";
      return to == 0 ? "a word goes back to unwritten" : "";
    case Cell::header:
    case Cell::elsewhere:
      return "";
  }
  return "";
}

bool Arena::is_final(const void* cell, std::uint64_t value) const noexcept {
  if (value == 0) return false;
  const Cell is = kind(cell);
  return is == Cell::print || is == Cell::next ||
         (is == Cell::word && (value & engine::kFrozen) != 0);
}

// Of all that is in use, plain fields too. Four lanes, so that the multiplications overlap.
std::uint64_t Arena::hash() const noexcept {
  std::uint64_t sum = state_.made;
  for (std::size_t array = 0; array < state_.made; ++array) {
    if (state_.freed[array]) {
      sum = mix(sum + 1);
      continue;
    }
    std::array<std::uint64_t, 4> lanes{sum, 1, 2, 3};
    const std::size_t begin = array * kArrayBytes;
    for (std::size_t at = 0; at < state_.bytes[array]; at += 32) {
      for (std::size_t lane = 0; lane < 4; ++lane) {
        const std::uint64_t value = lanes[lane] ^ value_at(begin + at + lane * 8);
        lanes[lane] = (value ^ (value >> 29)) * 0xD6E8FEB86659FD93;
      }
    }
    sum = mix(lanes[0] ^ mix(lanes[1] ^ mix(lanes[2] ^ mix(lanes[3]))));
  }
  return sum;
}

std::string Arena::describe(const void* cell) const {
  const std::string array = "g" + std::to_string(offset(cell) / kArrayBytes);
  const std::size_t inside = offset(cell) % kArrayBytes;
  const std::size_t slot = (inside - kHeaderBytes) / kSlotBytes;
  switch (kind(cell)) {
    case Cell::elsewhere:
      return "no array";
    case Cell::next:
      return array + ".next";
    case Cell::header:
      if (inside == offsetof(Array, cursor)) return array + ".cursor";
      if (inside == offsetof(Array, claimed)) return array + ".claimed";
      if (inside == offsetof(Array, fresh)) return array + ".fresh";
      return array + ".header+" + std::to_string(inside);
    case Cell::print:
      return array + "[" + std::to_string(slot) + "].print";
    case Cell::word:
      return array + "[" + std::to_string(slot) + "].word";
  }
  return {};
}

}  // namespace pail::model
