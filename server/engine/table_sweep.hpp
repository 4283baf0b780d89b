// The background: visiting every segment now and then, so that memory follows the live keys down
// even where nobody comes by; and the counts. (Part of table.hpp: include that.)
#pragma once

#include <algorithm>

#include "server/engine/table.hpp"

namespace pail::engine {

// Paced by the clock, whoever calls: all threads together visit each segment once in kSweepTicks.
// What was missed while all slept is made up for at most one round.
template <class Traits>
bool Table<Traits>::sweep(Participant& participant, Ticks clock) noexcept {
  constexpr std::uint32_t kVisitCost = 4;  // of a segment with nothing to do, in slots
  Seat& seat = *participant.seat_;
  const std::uint64_t due = clock / (kSweepTicks / segment_count_);
  for (std::uint32_t spent = 0; spent < Sizing::kSampleSlots;) {
    if (seat.own.unfinished_segment != 0) {
      spent += sweep_segment(participant, seat.own.unfinished_segment - 1, clock);
      continue;
    }
    std::uint64_t visited = swept_.load(std::memory_order_relaxed);
    if (visited >= due) return false;
    const std::uint64_t at = std::max(visited, due - std::min<std::uint64_t>(due, segment_count_));
    if (swept_.compare_exchange_strong(visited, at + 1, std::memory_order_relaxed)) {
      spent += kVisitCost + sweep_segment(participant, at % segment_count_, clock);
    }
  }
  return true;
}

// Begins or goes on with the migration of a segment that is mostly idle. Returns the slots looked
// at.
template <class Traits>
std::uint32_t Table<Traits>::sweep_segment(Participant& participant, std::size_t segment,
                                           Ticks clock) noexcept {
  Seat& seat = *participant.seat_;
  seat.own.unfinished_segment = 0;
  // Acquire, as in every walk.
  const ArrayRef at{segments_[segment].load(std::memory_order_acquire)};
  if (!at) return 0;
  std::uint32_t looked = 0;
  if (!at->next.load(std::memory_order_acquire)) {
    if (at.lines() <= Sizing::lines_for(0, at.lines())) return 0;  // small enough for none
    looked = std::min(at.slots(), Sizing::kGlanceSlots);
    if (!seems_idle(at, clock, looked)) return looked;
    looked += std::min(at.slots(), Sizing::kSampleSlots);
    // Less than a quarter saved is not worth the copying.
    const std::uint32_t lines = lines_for(at, count_used(at, std::max(clock, at->born)));
    if (lines > at.lines() - at.lines() / 4) return looked;
    if (!link(seat, segment, at, clock, Need::reclaim)) return looked;
  }
  const std::uint32_t step = std::min(at.slots(), Sizing::kSampleSlots);
  migrate(seat, segment, at, step);
  if (segments_[segment].load(std::memory_order_relaxed) == at.bits()) {
    seat.own.unfinished_segment = segment + 1;
  }
  return looked + step;
}

// A glance at a few slots, elsewhere each time: is less than a third of them in use?
template <class Traits>
bool Table<Traits>::seems_idle(ArrayRef at, Ticks clock, std::uint32_t look) const noexcept {
  const std::uint32_t begin = static_cast<std::uint32_t>(clock >> kRetryShift) * look % at.slots();
  const Ticks since = not_recent(std::max(clock, at->born));
  std::uint32_t used = 0;
  for (std::uint32_t i = 0; i < look; ++i) {
    const Word word = at->slot((begin + i) % at.slots()).word.load(std::memory_order_relaxed);
    used += (word & ~kFrozen) > since ? 1U : 0U;
  }
  return used * 3 < look;
}

template <class Traits>
TableStats Table<Traits>::stats() const noexcept {
  TableStats sum;
  std::uint64_t made = 0, freed = 0, dropped = 0, retired_freed = 0;
  for (const Seat& seat : threads_.seats()) {
    const SeatState& own = seat.own;
    const auto read = [](const Counter<std::uint64_t>& counter) {
      return counter.load(std::memory_order_relaxed);
    };
    sum.entries += read(own.entries_made);
    dropped += read(own.entries_dropped);
    made += read(own.arrays_made);
    freed += read(own.arrays_freed);
    sum.migrations_finished += read(own.arrays_retired);
    retired_freed += read(own.retired_freed);
    sum.migrations_started += read(own.migrations_started);
    sum.refused_keys += read(own.refused_keys);
  }
  // Read while threads run, the terms may be of different moments; never below 0, though.
  const auto less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  sum.entries = less(sum.entries, dropped);
  sum.arrays = less(made, freed);
  sum.retired_arrays = less(sum.migrations_finished, retired_freed);
  sum.resident_bytes = memory_.resident_bytes();
  sum.memory_limit_bytes = memory_.limit_bytes();
  return sum;
}

}  // namespace pail::engine
