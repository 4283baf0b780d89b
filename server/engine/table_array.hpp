// One array of the table: a header line and lines of slots, and how a key is looked for in it.
//
//      0        8        16       24       32                                            64
//     +--------+--------+--------+--------+------+------+------+------+------+------+----+
//     | born   | next   | retired: link, stamp   | cursor claimed fresh | grow close room retry |
//     +--------+--------+--------+--------+------+------+------+------+------+------+----+
//     | print  word | print  word | print  word | print  word |   line 0: slots 0 to 3
//     | print  word | ...
//
// An array is made of zeros, so an empty slot is {0, 0}, and costs no writing to make.
#pragma once

#include <atomic>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "server/engine/quiescence.hpp"
#include "server/engine/table_flaw.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

// Bit 63 of a word: the entry has moved on; the value in the other bits is final.
inline constexpr Word kFrozen = Word{1} << 63;

// Fingerprints that are none. An empty slot becomes a key's or a tombstone, once, for ever.
inline constexpr std::uint64_t kEmpty = 0;
inline constexpr std::uint64_t kTombstone = ~std::uint64_t{0};

[[nodiscard]] constexpr std::uint64_t print_of(const KeyHash& hash) noexcept {
  if (hash.low == kEmpty) return 1;
  if (hash.low == kTombstone) return kTombstone - 1;
  return hash.low;
}

template <class Traits>
struct Slot {
  template <class T>
  using Atomic = typename Traits::template Atomic<T>;

  Atomic<std::uint64_t> print;
  Atomic<Word> word;
};

template <class Traits>
class Array;

// A pointer to an array and its number of lines in one atomic word, so that a reader finds a key's
// home without waiting for the header: address / 64 in the upper 42 bits, lines in the lower 22.
template <class Traits>
class ArrayRef {
 public:
  static constexpr unsigned kLineBits = 22;
  static constexpr std::uint32_t kMaxLines = (std::uint32_t{1} << kLineBits) - 1;

  constexpr ArrayRef() noexcept = default;
  constexpr explicit ArrayRef(std::uint64_t bits) noexcept : bits_(bits) {}
  ArrayRef(const Array<Traits>* array, std::uint32_t lines) noexcept
      : bits_((reinterpret_cast<std::uintptr_t>(array) / kCacheLineBytes) << kLineBits | lines) {
    assert(reinterpret_cast<std::uintptr_t>(array) % kCacheLineBytes == 0);
    assert(reinterpret_cast<std::uintptr_t>(array) >> 48 == 0 && lines <= kMaxLines);
  }

  [[nodiscard]] Array<Traits>* operator->() const noexcept { return array(); }
  [[nodiscard]] Array<Traits>& operator*() const noexcept { return *array(); }
  [[nodiscard]] Array<Traits>* array() const noexcept {
    return reinterpret_cast<Array<Traits>*>((bits_ >> kLineBits) * kCacheLineBytes);
  }
  [[nodiscard]] std::uint32_t lines() const noexcept {
    return static_cast<std::uint32_t>(bits_ & kMaxLines);
  }
  [[nodiscard]] std::uint32_t slots() const noexcept { return lines() * Traits::kLineSlots; }
  // The first slot of the key's home line. It grows with the fingerprint, whatever the size: so a
  // migration in order of slots writes the next array in order, too.
  [[nodiscard]] std::uint32_t home(std::uint64_t print) const noexcept {
    return static_cast<std::uint32_t>((print >> 32) * lines() >> 32) * Traits::kLineSlots;
  }
  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_; }
  [[nodiscard]] explicit operator bool() const noexcept { return bits_ != 0; }
  friend bool operator==(ArrayRef, ArrayRef) = default;

 private:
  std::uint64_t bits_ = 0;
};

template <class Traits>
class alignas(kCacheLineBytes) Array {
 public:
  template <class T>
  using Atomic = typename Traits::template Atomic<T>;
  template <class T>
  using Counter = typename Traits::template Counter<T>;

  struct Plan {
    Ticks born = 0;
    std::uint32_t lines = 0;
    std::uint32_t grow_at = 0;
    std::uint32_t close_at = 0;
    std::uint32_t room = 0;
  };

  explicit Array(const Plan& plan) noexcept
      : born(plan.born),
        lines(plan.lines),
        grow_at(plan.grow_at),
        close_at(plan.close_at),
        room(plan.room) {}

  static constexpr std::size_t bytes(std::uint32_t lines) noexcept {
    return sizeof(Array) + std::size_t{lines} * Traits::kLineSlots * sizeof(Slot<Traits>);
  }
  [[nodiscard]] Slot<Traits>& slot(std::uint32_t index) noexcept {
    return reinterpret_cast<Slot<Traits>*>(this + 1)[index];
  }

  // Immutable once the array can be reached.
  const Ticks born;  // the clock floor: entries at or below it were dropped on the way in

  // Written once, by CAS from nothing (acq_rel: the next array's header and zeros come with it).
  Atomic<std::uint64_t> next{0};

  // Plain: the retiring thread's, then its seat's. No reader of the array looks at them.
  Array* retired_link = nullptr;
  std::uint64_t retired_stamp = 0;

  // Slots before this have been migrated. CAS forward with acq_rel, after the work: so whoever
  // finds it at the end also sees all copies, and passes that on when it moves the segment's
  // pointer.
  Atomic<std::uint32_t> cursor{0};

  // Hints. Owned slots; a late count only makes a migration begin a little later.
  Counter<std::uint32_t> claimed{0};
  // New keys put here before the segment's pointer came; reserved before the slot is claimed.
  Counter<std::uint32_t> fresh{0};
  // Not before this moment (ticks >> kRetryShift) is it worth asking again for a next array.
  Counter<std::uint32_t> retry_at{0};

  // Immutable, too.
  const std::uint32_t lines;
  const std::uint32_t grow_at;   // claimed slots that begin a migration
  const std::uint32_t close_at;  // claimed slots above which no new key is taken in
  const std::uint32_t room;      // the bound of `fresh` at the memory limit
};

// 2^32 ticks, a quarter of a second.
inline constexpr unsigned kRetryShift = 32;

// What ended a search within one array.
enum class Found : std::uint8_t {
  mine,   // the key's slot
  empty,  // the key is not in the array; this is where it would be
  leave,  // a tombstone, or all slots seen: the array will never hold the key
};

// The key's slot if it is in one of the first lines of its path, else nothing, which says nothing.
// Which slot of a line it is cannot be predicted, so there is no branch about it: a wrong guess
// would keep the core from going on to the next key while this one's line is on its way (measured:
// a tenth of a take). There is no need to look for an empty slot first: a key is never behind one.
template <class Traits>
[[nodiscard]] inline Slot<Traits>* find_near(ArrayRef<Traits> in, std::uint64_t print) noexcept {
  constexpr int kLines = 2;
  std::uint32_t first = in.home(print);
  for (int line = 0; line < kLines; ++line) {
    Slot<Traits>* const slots = &in->slot(first);
    // A bit a slot, each found by itself: of a loop or a choice a compiler makes a branch again.
    // Acquire: pairs with the CAS that claimed the slot.
    const unsigned mine = [&]<unsigned... i>(std::integer_sequence<unsigned, i...>) {
      return (... | (unsigned{slots[i].print.load(std::memory_order_acquire) == print} << i));
    }
    (std::make_integer_sequence<unsigned, Traits::kLineSlots>());
    if (mine != 0) [[likely]]
      return slots + std::countr_zero(mine);
    first += Traits::kLineSlots;
    if (first == in.slots()) first = 0;
  }
  return nullptr;
}

// Linear probing from the key's home, resumable at the slot where it stopped.
template <class Traits>
class Probe {
 public:
  Probe(ArrayRef<Traits> in, std::uint64_t print) noexcept
      : array_(in.array()), print_(print), slots_(in.slots()), index_(in.home(print)) {}

  [[nodiscard]] Slot<Traits>& slot() const noexcept { return array_->slot(index_); }

  // Begins with the present slot, so after a lost claim that very slot is looked at again.
  [[nodiscard]] Found look() noexcept {
    for (; seen_ < slots_; skip()) {
      // Acquire: pairs with the release that put a tombstone here. `next` was linked before.
      const std::uint64_t owner = slot().print.load(std::memory_order_acquire);
      if (owner == print_) return Found::mine;
      if (owner == kEmpty) return Found::empty;
      if (owner == kTombstone) return Found::leave;
      if (Traits::flaw() == Flaw::other_frozen_sends_on &&
          (slot().word.load(std::memory_order_acquire) & kFrozen) != 0) {
        return Found::leave;
      }
    }
    return Found::leave;
  }

  void skip() noexcept {
    ++seen_;
    if (++index_ == slots_) index_ = 0;
  }

 private:
  Array<Traits>* array_;
  std::uint64_t print_;
  std::uint32_t slots_;
  std::uint32_t index_;
  std::uint32_t seen_ = 0;
};

}  // namespace pail::engine
