// One operation on its way: from the segment's current array to the slot of its key, through as
// many next arrays as have been linked. The rules are in table.hpp. (Part of table.hpp: include
// that.)
#pragma once

#include <algorithm>
#include <cassert>
#include <optional>

#include "server/engine/table.hpp"

namespace pail::engine {

template <class Traits, class Clock, class Decide>
class Walk {
  using Table = engine::Table<Traits>;
  using ArrayRef = engine::ArrayRef<Traits>;
  using Slot = engine::Slot<Traits>;
  using Room = typename Table::Room;

 public:
  Walk(Table& table, typename Table::Seat& seat, KeyHash hash, Access access, Clock& clock,
       Decide& decide) noexcept
      : table_(table),
        seat_(seat),
        segment_(table.segment_of(hash)),
        print_(print_of(hash)),
        access_(access),
        clock_(clock),
        decide_(decide) {}

  [[nodiscard]] Outcome run() noexcept {
    // Acquire: pairs with the CAS in migrate() or open_segment() that put the array here.
    at_ = ArrayRef(table_.segments_[segment_].load(std::memory_order_acquire));
    if (Traits::flaw() == Flaw::start_at_newest) go_to_newest();
    if (!at_ && !enter_unused_segment()) return outcome_;
    while (!visit() && move_on()) {
    }
    if (busy_) [[unlikely]]
      table_.tend(seat_, segment_, read_clock());
    return outcome_;
  }

 private:
  // Looks for the key in the present array. True: the operation is done.
  [[nodiscard]] bool visit() noexcept {
    floor_ = table_.floor();
    Probe<Traits> probe(at_, print_);
    for (;;) {
      switch (probe.look()) {
        case Found::mine:
          return update(probe.slot(), probe.slot().word.load(std::memory_order_acquire));
        case Found::leave:
          if (Traits::flaw() == Flaw::tombstone_drops_carry) carry_ = 0;
          return false;
        case Found::empty:
          break;
      }
      const Word known = carried();
      const std::optional<Word> next = decide_(known, now());
      // Only a key that is carried, and so has an entry, may be written by an access that finds.
      if (!next || (known == 0 && access_ == Access::find)) return finish(Outcome::unchanged);

      Room room = Room::free;
      if (known == 0) {
        room = table_.room_for_new_key(seat_, segment_, at_, current_, read_clock());
        if (room == Room::none) return finish_refused();
        if (room == Room::closed) {
          if (Traits::flaw() == Flaw::skip_when_crowded) return false;
          // As a migration would: the slot must not be left open behind us.
          std::uint64_t empty = kEmpty;
          probe.slot().print.compare_exchange_strong(empty, kTombstone, std::memory_order_acq_rel,
                                                     std::memory_order_acquire);
          continue;
        }
      }
      std::uint64_t empty = kEmpty;
      if (probe.slot().print.compare_exchange_strong(empty, print_, std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
        busy_ |= table_.count_claim(seat_, *at_);
        return write_first(probe.slot(), *next);
      }
      if (room == Room::reserved) at_->fresh.fetch_sub(1, std::memory_order_relaxed);
      if (Traits::flaw() == Flaw::lost_claim_moves_on) probe.skip();
    }
  }

  // To the next array. False: there is none, and the operation ends here.
  [[nodiscard]] bool move_on() noexcept {
    busy_ = true;
    ArrayRef next{at_->next.load(std::memory_order_acquire)};
    if (!next) {
      // All slots were seen, all are other keys', and then there was no next: the key has no entry.
      const Word known = carried();
      if (known == 0 && (!decide_(known, now()) || access_ == Access::find)) {
        finish(Outcome::unchanged);
        return false;
      }
      next = known == 0 ? table_.link_to_grow(seat_, segment_, at_, read_clock())
                        : table_.link(seat_, segment_, at_, read_clock(), Need::copy);
      if (!next) {
        finish_refused();
        return false;
      }
    }
    at_ = next;
    current_ = false;
    return true;
  }

  // On the key's own slot, with its word as last seen. False: frozen, the entry has moved on.
  [[nodiscard]] bool update(Slot& slot, Word word) noexcept {
    for (;;) {
      if ((word & kFrozen) != 0) [[unlikely]] {
        const Word value = word & ~kFrozen;
        if (value != 0 || Traits::flaw() == Flaw::frozen_zero_clears_carry) carry_ = value;
        return false;
      }
      const std::optional<Word> next = decide_(word == 0 ? carried() : word, now());
      if (!next) return finish(Outcome::unchanged);
      if (try_write(slot, word, *next)) return finish(Outcome::written);
    }
  }

  // On a slot just claimed, with what was decided before: mostly nobody has been faster.
  [[nodiscard]] bool write_first(Slot& slot, Word next) noexcept {
    Word word = 0;
    if (try_write(slot, word, next)) return finish(Outcome::written);
    return update(slot, word);
  }

  [[nodiscard]] static bool try_write(Slot& slot, Word& word, Word next) noexcept {
    assert((next != 0 || Traits::flaw() == Flaw::reset_to_zero) && (next & kFrozen) == 0);
    // Acquire on failure: the word may be frozen, and then `next` is read. Release and acquire on
    // success: whoever decides on this word comes after the decision that wrote it.
    return slot.word.compare_exchange_strong(word, next, std::memory_order_acq_rel,
                                             std::memory_order_acquire);
  }

  // What the key's word is where this array has none: what came along, unless it was dropped.
  [[nodiscard]] Word carried() const noexcept { return carry_ > at_->born ? carry_ : 0; }

  [[nodiscard]] Ticks read_clock() noexcept { return Table::read(clock_); }
  [[nodiscard]] Ticks now() noexcept {
    const Ticks clock = read_clock();
    if (Traits::flaw() == Flaw::no_born_floor) return clock;
    if (Traits::flaw() == Flaw::born_not_monotone) return std::max(clock, at_->born);
    return std::max(clock, floor_);
  }

  // No key of the segment was ever written. False: done.
  [[nodiscard]] bool enter_unused_segment() noexcept {
    if (!decide_(Word{0}, read_clock()) || access_ == Access::find) {
      finish(Outcome::unchanged);
      return false;
    }
    at_ = table_.open_segment(seat_, segment_);
    if (!at_) finish_refused();
    return static_cast<bool>(at_);
  }

  void go_to_newest() noexcept {
    while (at_) {
      const ArrayRef next{at_->next.load(std::memory_order_acquire)};
      if (!next) return;
      at_ = next;
    }
  }

  bool finish(Outcome outcome) noexcept {
    outcome_ = outcome;
    return true;
  }
  bool finish_refused() noexcept {
    Table::count(seat_.own.refused_keys);
    return finish(Outcome::full);
  }

  Table& table_;
  typename Table::Seat& seat_;
  const std::size_t segment_;
  const std::uint64_t print_;
  const Access access_;
  Clock& clock_;
  Decide& decide_;

  ArrayRef at_;
  Ticks floor_ = 0;      // not before at_->born
  Word carry_ = 0;       // the value the key was last frozen at, if not 0
  bool current_ = true;  // at_ is where the segment pointed when the walk began
  bool busy_ = false;    // the segment migrates, or should
  Outcome outcome_ = Outcome::unchanged;
};

// The way that nearly all take: the key is in the segment's current array and has not moved on.
// Then two lines of memory are enough: the segment's pointer, and the slot.
template <class Traits>
template <class Clock, class Decide>
[[gnu::always_inline]] inline std::optional<Outcome> Table<Traits>::update_near(
    KeyHash hash, Clock&& clock, Decide&& decide) noexcept {
  const Ticks old_floor = Traits::flaw() == Flaw::near_floor_first ? floor() : 0;
  // Acquire: pairs with the CAS in migrate() or open_segment() that put the array here.
  const ArrayRef at{segments_[segment_of(hash)].load(std::memory_order_acquire)};
  if (at && takes_short_way(Traits::flaw())) [[likely]] {
    // After the array, so that it is not before the array's born; and before the word, so that a
    // word is decided on at once after it was seen.
    Ticks floor = this->floor();
    if (Traits::flaw() == Flaw::near_floor_first) floor = old_floor;
    if (Traits::flaw() == Flaw::near_without_floor) floor = 0;
    if (Slot* const slot = find_near(at, print_of(hash))) [[likely]] {
      Word word = slot->word.load(std::memory_order_acquire);
      while ((word & kFrozen) == 0 || Traits::flaw() == Flaw::near_over_frozen) [[likely]] {
          const std::optional<Word> next = decide(word & ~kFrozen, std::max(read(clock), floor));
          if (!next) return Outcome::unchanged;
          assert(*next != 0 && (*next & kFrozen) == 0);
          if (slot->word.compare_exchange_strong(word, *next, std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) [[likely]] {
            return Outcome::written;
          }
          if (Traits::flaw() == Flaw::near_decides_once && (word & kFrozen) == 0 &&
              slot->word.compare_exchange_strong(word, *next, std::memory_order_acq_rel,
                                                 std::memory_order_acquire)) {
            return Outcome::written;
          }
        }
    }
  }
  return std::nullopt;
}

template <class Traits>
template <class Clock, class Decide>
inline Outcome Table<Traits>::update(Participant& participant, KeyHash hash, Access access,
                                     Clock&& clock, Decide&& decide) noexcept {
  if (const auto outcome = update_near(hash, clock, decide)) [[likely]]
    return *outcome;
  return update_slowly(participant, hash, access, clock, decide);
}

template <class Traits>
template <class Clock, class Decide>
[[gnu::noinline]] Outcome Table<Traits>::update_slowly(Participant& participant, KeyHash hash,
                                                       Access access, Clock& clock,
                                                       Decide& decide) noexcept {
  Walk<Traits, Clock, Decide> walk(*this, *participant.seat_, hash, access, clock, decide);
  return walk.run();
}

}  // namespace pail::engine
