// Migration: how an array of the table is replaced by one of the right size, by everybody and in
// small steps, while all its keys stay in use. The rules are in table.hpp. (Part of table.hpp:
// include that.)
#pragma once

#include <algorithm>
#include <cassert>
#include <new>

#include "server/engine/table.hpp"

namespace pail::engine {

template <class Traits>
Table<Traits>::Table(const TableOptions& options)
    : segment_count_(std::size_t{1} << options.segment_bits),
      segment_shift_(64 - options.segment_bits),
      memory_(options),
      segments_(static_cast<Atomic<std::uint64_t>*>(
          std::calloc(segment_count_, sizeof(Atomic<std::uint64_t>)))) {
  if (segments_ == nullptr) throw std::bad_alloc();
}

template <class Traits>
Table<Traits>::~Table() {
  Seat& seat = threads_.enroll();
  for (std::size_t segment = 0; segment < segment_count_; ++segment) {
    ArrayRef at{segments_[segment].load(std::memory_order_acquire)};
    while (at) {
      const ArrayRef next{at->next.load(std::memory_order_acquire)};
      release(seat, at.array());
      at = next;
    }
  }
  for (Seat& other : threads_.seats()) {
    while (other.own.retired_first != nullptr) {
      Array* array = other.own.retired_first;
      other.own.retired_first = array->retired_link;
      release(seat, array);
    }
  }
  threads_.leave(seat);
}

// ---- arrays

template <class Traits>
auto Table<Traits>::make_array(Seat& seat, std::size_t segment, Ticks born, std::uint32_t lines,
                               std::uint32_t previous_slots, Need need) noexcept -> Array* {
  const std::uint32_t slots = lines * Traits::kLineSlots;
  void* memory = memory_.allocate(Array::bytes(lines), need);
  if (memory == nullptr) return nullptr;
  count(seat.own.arrays_made);
  return new (memory) Array({.born = born,
                             .lines = lines,
                             .grow_at = Sizing::grow_at(slots, segment),
                             .close_at = Sizing::close_at(slots),
                             .room = slots > previous_slots ? slots - previous_slots : 0});
}

template <class Traits>
void Table<Traits>::release(Seat& seat, Array* array) noexcept {
  count(seat.own.arrays_freed);
  count(seat.own.entries_dropped, array->claimed.load(std::memory_order_relaxed));
  memory_.release(array, Array::bytes(array->lines));
}

// The first array of a segment. Its floor is 0: nothing was ever dropped.
template <class Traits>
auto Table<Traits>::open_segment(Seat& seat, std::size_t segment) noexcept -> ArrayRef {
  const std::uint32_t lines = Sizing::lines_for(0, 0);
  Array* array = make_array(seat, segment, 0, lines, 0, Need::growth);
  if (array == nullptr) return {};
  const ArrayRef made(array, lines);
  std::uint64_t found = 0;
  if (segments_[segment].compare_exchange_strong(found, made.bits(), std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) {
    return made;
  }
  release(seat, array);
  return ArrayRef(found);
}

// The next array of `at`, made if there is none yet. None if the memory limit does not allow it.
template <class Traits>
auto Table<Traits>::link(Seat& seat, std::size_t segment, ArrayRef at, Ticks clock,
                         Need need) noexcept -> ArrayRef {
  if (const ArrayRef next{at->next.load(std::memory_order_acquire)}) return next;
  const Ticks born = Traits::flaw() == Flaw::born_not_monotone ? clock : raise_floor(clock);
  const Used used = count_used(at, born);
  std::uint32_t lines = lines_for(at, used);
  // Where entries are still arriving, those present are not the measure.
  if (segments_[segment].load(std::memory_order_acquire) != at.bits()) {
    lines = std::max(lines, 2 * at.lines());
  }
  lines = std::min(lines, ArrayRef::kMaxLines);
  if (need == Need::growth && lines <= at.lines()) need = Need::reclaim;

  Array* array = make_array(seat, segment, born, lines, at.slots(), need);
  if (array == nullptr && need == Need::growth && used.live < at->grow_at) {
    // No memory to grow; but dropping what is idle makes room without.
    lines = at.lines();
    array = make_array(seat, segment, born, lines, at.slots(), Need::reclaim);
  }
  if (array == nullptr) return {};
  const ArrayRef made(array, lines);
  std::uint64_t found = 0;
  // Release: the header and the zeros go with the pointer. Nobody can tell who linked it.
  if (at->next.compare_exchange_strong(found, made.bits(), std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
    count(seat.own.migrations_started);
    return made;
  }
  release(seat, array);  // never seen by anybody: no need to wait
  return ArrayRef(found);
}

// For new keys. Where there was no memory a moment ago it is not looked for again: at the limit a
// flood of new keys would have every array counted for each of them.
template <class Traits>
auto Table<Traits>::link_to_grow(Seat& seat, std::size_t segment, ArrayRef at, Ticks clock) noexcept
    -> ArrayRef {
  if (const ArrayRef next{at->next.load(std::memory_order_acquire)}) return next;
  const auto moment = static_cast<std::uint32_t>(clock >> kRetryShift);
  if (moment < at->retry_at.load(std::memory_order_relaxed)) return {};
  const ArrayRef next = link(seat, segment, at, clock, Need::growth);
  if (!next) at->retry_at.store(moment + 1, std::memory_order_relaxed);
  return next;
}

// Relaxed, see floor(): by coherence alone, whoever reads it later reads at least this.
template <class Traits>
Ticks Table<Traits>::raise_floor(Ticks clock) noexcept {
  Ticks seen = floor_.load(std::memory_order_relaxed);
  while (seen < clock && !floor_.compare_exchange_strong(seen, clock, std::memory_order_relaxed,
                                                         std::memory_order_relaxed)) {
  }
  return std::max(seen, clock);
}

// From a sample where the array is large: prints are spread evenly.
template <class Traits>
auto Table<Traits>::count_used(ArrayRef at, Ticks clock) const noexcept -> Used {
  const std::uint32_t sample = std::min(at.slots(), Sizing::kSampleSlots);
  const Ticks since = not_recent(clock);
  Used used;
  for (std::uint32_t i = 0; i < sample; ++i) {
    const Word word = at->slot(i).word.load(std::memory_order_relaxed) & ~kFrozen;
    used.live += word > clock ? 1U : 0U;
    used.recent += word > since ? 1U : 0U;
  }
  const auto in_all = [&](std::uint64_t seen) { return (seen * at.slots() + sample - 1) / sample; };
  return {.live = in_all(used.live), .recent = in_all(used.recent)};
}

// For the live, and for those that are idle but likely to come again: a word tells when its key was
// last in use. At the memory limit the latter may not keep more than half of what there is.
template <class Traits>
std::uint32_t Table<Traits>::lines_for(ArrayRef at, const Used& used) const noexcept {
  const std::uint32_t recent = Sizing::lines_for(used.recent, at.lines());
  if (!memory_.at_limit() || recent <= at.lines() / 2) return recent;
  return std::max(at.lines() / 2, Sizing::lines_for(used.live, at.lines()));
}

template <class Traits>
auto Table<Traits>::room_for_new_key(Seat& seat, std::size_t segment, ArrayRef at, bool current,
                                     Ticks clock) noexcept -> Room {
  if (at->claimed.load(std::memory_order_relaxed) >= at->close_at) [[unlikely]] {
    return link_to_grow(seat, segment, at, clock) ? Room::closed : Room::none;
  }
  if (current || segments_[segment].load(std::memory_order_acquire) == at.bits()) return Room::free;
  if (at->fresh.fetch_add(1, std::memory_order_relaxed) < at->room || !memory_.at_limit()) {
    return Room::reserved;
  }
  at->fresh.fetch_sub(1, std::memory_order_relaxed);
  // The rest belongs to the copies, until they have all arrived. Idle entries are dropped on the
  // way: so a bounded effort to get there, before the key is refused.
  const ArrayRef before{segments_[segment].load(std::memory_order_acquire)};
  migrate(seat, segment, before, Sizing::kSampleSlots);
  const bool arrived = segments_[segment].load(std::memory_order_acquire) == at.bits();
  return arrived ? Room::free : Room::none;
}

// ---- migration

// What an operation does for a segment that migrates, or that it found crowded.
template <class Traits>
void Table<Traits>::tend(Seat& seat, std::size_t segment, Ticks clock) noexcept {
  // Acquire, as in every walk.
  const ArrayRef at{segments_[segment].load(std::memory_order_acquire)};
  if (!at->next.load(std::memory_order_acquire)) {
    if (at->claimed.load(std::memory_order_relaxed) < at->grow_at) return;
    if (!link_to_grow(seat, segment, at, clock)) return;
  }
  migrate(seat, segment, at, Sizing::kHelpSlots);
}

// Migrates up to `budget` slots of `at`, if its next is linked, and moves the segment on at the
// end.
template <class Traits>
void Table<Traits>::migrate(Seat& seat, std::size_t segment, ArrayRef at,
                            std::uint32_t budget) noexcept {
  const ArrayRef next{at->next.load(std::memory_order_acquire)};
  if (!next) return;
  // Acquire: with the release of the helpers before us, all their copies.
  std::uint32_t done = at->cursor.load(std::memory_order_acquire);
  while (done < at.slots() && budget != 0) {
    const std::uint32_t step = std::min({budget, at.slots() - done, Sizing::kHelpSlots});
    const std::uint32_t end = done + step;
    if (Traits::flaw() == Flaw::cursor_before_work) {
      std::uint32_t seen = done;
      at->cursor.compare_exchange_strong(seen, end, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
    }
    for (std::uint32_t i = done; i < end; ++i) {
      if (!migrate_slot(seat, segment, at->slot(i), next)) return;
    }
    budget -= step;
    // On failure another helper was faster: go on from where that one is.
    if (at->cursor.compare_exchange_strong(done, end, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
      done = end;
      if (Traits::flaw() == Flaw::retire_before_unlink && end == at.slots())
        retire(seat, at.array());
    }
  }
  if (done < at.slots()) return;
  // Fails if another helper did it, or if the segment still points at an array before this one.
  std::uint64_t found = at.bits();
  if (segments_[segment].compare_exchange_strong(found, next.bits(), std::memory_order_acq_rel,
                                                 std::memory_order_relaxed)) {
    if (Traits::flaw() != Flaw::retire_before_unlink) retire(seat, at.array());
  }
}

// False if a copy found no memory, which only the kernel can refuse: then the slot is not done.
template <class Traits>
bool Table<Traits>::migrate_slot(Seat& seat, std::size_t segment, Slot& slot,
                                 ArrayRef next) noexcept {
  std::uint64_t print = slot.print.load(std::memory_order_acquire);
  if (print == kEmpty) {
    if (Traits::flaw() == Flaw::no_tombstones) return true;
    // Release: who meets the tombstone finds `next`. On failure a key has it now.
    if (slot.print.compare_exchange_strong(print, kTombstone, std::memory_order_acq_rel,
                                           std::memory_order_acquire)) {
      return true;
    }
  }
  if (print == kTombstone) return true;

  Word word = 0;
  if (Traits::flaw() == Flaw::idle_before_freeze) {
    word = slot.word.load(std::memory_order_acquire);
    const Word after = slot.word.fetch_or(kFrozen, std::memory_order_acq_rel);
    if ((word & ~kFrozen) > next->born) word = after;
  } else {
    // Release: who meets the frozen word finds `next`. Idleness is judged on what was frozen, which
    // is final.
    word = slot.word.fetch_or(kFrozen, std::memory_order_acq_rel);
  }
  if (Traits::flaw() == Flaw::already_frozen_is_done && (word & kFrozen) != 0) return true;
  const Word value = word & ~kFrozen;
  if (Traits::flaw() == Flaw::drop_by_own_clock) {
    if (value <= Traits::own_clock()) return true;
  } else if (value <= next->born) {
    return true;
  }
  return copy(seat, segment, next, print, value);
}

// Carries a frozen value from array to array, until it is installed, or found to be superseded, or
// at or below the floor. False: no memory.
template <class Traits>
bool Table<Traits>::copy(Seat& seat, std::size_t segment, ArrayRef at, std::uint64_t print,
                         Word carry) noexcept {
  for (;;) {
    if (carry <= at->born) return true;
    Probe<Traits> probe(at, print);
    Found found = probe.look();
    while (found == Found::empty) {
      std::uint64_t empty = kEmpty;
      if (probe.slot().print.compare_exchange_strong(empty, print, std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
        count_claim(seat, *at);
        if (Traits::flaw() == Flaw::copy_counts_at_claim) return true;
      }
      found = probe.look();  // the same slot
    }
    if (found == Found::mine) {
      Word word = probe.slot().word.load(std::memory_order_acquire);
      const auto lower = [carry](Word seen) {
        return seen == 0 || (Traits::flaw() == Flaw::raise_to_max && seen < carry);
      };
      while (lower(word)) {
        if (probe.slot().word.compare_exchange_strong(word, carry, std::memory_order_acq_rel,
                                                      std::memory_order_acquire)) {
          return true;
        }
      }
      if ((word & ~kFrozen) != 0) return true;  // a later word of the key: ours is history
      if (Traits::flaw() == Flaw::frozen_zero_is_done) return true;
    } else if (Traits::flaw() == Flaw::tombstone_drops_carry) {
      return true;
    }
    const ArrayRef next = link(seat, segment, at, at->born, Need::copy);
    if (!next) return false;
    at = next;
  }
}

template <class Traits>
bool Table<Traits>::begin_migration(Participant& participant, std::size_t segment,
                                    Ticks clock) noexcept {
  const ArrayRef at{segments_[segment].load(std::memory_order_acquire)};
  return at && link(*participant.seat_, segment, at, clock, Need::reclaim);
}

template <class Traits>
void Table<Traits>::help_migration(Participant& participant, std::size_t segment,
                                   std::uint32_t slots) noexcept {
  const ArrayRef at{segments_[segment].load(std::memory_order_acquire)};
  if (at) migrate(*participant.seat_, segment, at, slots);
}

// ---- retirement

template <class Traits>
void Table<Traits>::retire(Seat& seat, Array* array) noexcept {
  array->retired_stamp = threads_.stamp();
  array->retired_link = nullptr;
  SeatState& own = seat.own;
  (own.retired_first == nullptr ? own.retired_first : own.retired_last->retired_link) = array;
  own.retired_last = array;
  ++own.retired_in_turn;
  count(own.arrays_retired);
  if (Traits::flaw() == Flaw::free_at_once) free_retired(seat);
}

// Frees a bounded number of arrays that no thread can be reading any more.
template <class Traits>
void Table<Traits>::free_retired(Seat& seat) noexcept {
  SeatState& own = seat.own;
  if (own.retired_first == nullptr) [[likely]]
    return;
  const std::uint64_t horizon =
      Traits::flaw() == Flaw::free_at_once ? ~std::uint64_t{0} : threads_.horizon();
  const unsigned most = std::max(Sizing::kFreesPerTurn, 2 * own.retired_in_turn);
  own.retired_in_turn = 0;
  for (unsigned i = 0; i < most && own.retired_first != nullptr; ++i) {
    Array* array = own.retired_first;
    if (array->retired_stamp >= horizon) return;
    own.retired_first = array->retired_link;
    count(own.retired_freed);
    release(seat, array);
  }
}

}  // namespace pail::engine
