// The table: one 64-bit word of state for each of hundreds of millions of keys, shared by all
// threads.
//
//   key hash: high --> segment (up to 2^12 of them): a pointer to its current array of slots
//             low  --> the fingerprint ("print"), and from it the home line in whatever array
//
//   segment ---> array g ----next----> array g+1 ----next----> ...      (mostly there is only g)
//                born, slots           born, slots
//
// A slot is {print, word}; arrays are searched by linear probing. Within one array a slot goes from
// empty to a print once and never changes owner, so an update is one CAS on a word, and the word is
// the whole state of its key: nothing else has to agree with it. A new entry's word is 0, which is
// a fresh key: a half-done insert is a whole one. There are no deletions. Growing, shrinking and
// forgetting what is idle are one operation: migration to a next array of the right size.
//
// The rules. Each was found necessary by exhaustive search (leaving it out grants a token twice, or
// strands a key), and tests/model breaks them one by one to show that the tests notice:
//
//   walk       starts at the segment's pointer with carry 0, and in each array looks from home:
//                another key's slot, frozen or not -> the next slot
//                a tombstone, or all slots seen    -> the next array, linking one if there is none
//                empty                             -> CAS print; if that fails, the SAME slot again
//                its own, frozen at v              -> if v is not 0: carry = v; the next array
//                its own, word 0, carry > born     -> the word is carry: CAS 0 -> what follows
//                its own                           -> decide on the word at max(clock, floor); CAS
//   link       floor = max(floor, clock), next.born = floor, fixed before CAS(next: none -> new)
//   migrate    empty print -> CAS to a tombstone (if that fails, look again)
//              a key       -> v = fetch_or(frozen), by every helper, also when frozen already;
//                             if v > next.born: walk from next carrying v, until it is installed or
//                             a word of the key that is not 0 is met, which supersedes it
//   cursor     moves past slots after they are migrated; at the end, CAS pointer g -> next; the
//              winner retires g
//   room       a full next array links a further one. At the memory limit new keys may use only
//              slots(g+1) - slots(g) of g+1 until the pointer reaches it, so that copies fit; for
//              copies memory is never refused
//   words      no code stores 0 into a word, or stores a word plainly
//
// Why `born`: entries at or below it were dropped on the way in. So a decision in the array must
// not be made at an earlier time: a thread with an old clock reading would not see debt that was
// forgotten. What is compared with is not the array's born but the table's `floor`, the latest
// clock reading that any array was linked at: it is at least as high, it is a time that has been,
// and it is one word for all arrays, so that a decision needs nothing of an array but a slot.
//
// Invariants, checked by check_invariants():
//   1  at most one unfrozen entry a key
//   2  a walk for K leaves an array only past K frozen in it, past a tombstone on K's path, or past
//   all
//      of its slots: so K is not, and never again will be, written there
//   3  a word of 0 was never written in this array; the key's true word is what was carried, if
//   that is
//      above born, else nothing
//   4  an absent key's true word is <= born
//   5  once the segment points past g, every value above g.next.born is installed further on
//   6  born does not decrease along a chain
//
// Ordering. Every access that the rules speak of is acquire (load), release (none is a plain store)
// or acq_rel (RMW). What each pair carries is said where it happens and gathered in
// docs/architecture.md; there are no fences. Relaxed are the hints and counts of an Array, which
// only say when, never whether.
//
// Progress: lock-free. An update is one search and one CAS when nobody interferes; a CAS fails only
// because another thread's succeeded; every step of a migration is idempotent and may be done by
// any thread, so a thread that stops anywhere delays nobody (it keeps retired arrays from being
// freed). An operation does a bounded share of a migration that it meets: Sizing::kHelpSlots.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "server/engine/quiescence.hpp"
#include "server/engine/table_array.hpp"
#include "server/engine/table_flaw.hpp"
#include "server/engine/table_traits.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

template <class Traits, class Clock, class Decide>
class Walk;

template <class Traits>
class Table {
  template <class T>
  using Atomic = typename Traits::template Atomic<T>;
  template <class T>
  using Counter = typename Traits::template Counter<T>;
  using Array = engine::Array<Traits>;
  using ArrayRef = engine::ArrayRef<Traits>;
  using Slot = engine::Slot<Traits>;
  using Sizing = typename Traits::Sizing;

  // What belongs to the thread that holds a seat.
  struct SeatState {
    // Plain: the seat's thread only. Retired arrays in the order of their stamps.
    Array* retired_first = nullptr;
    Array* retired_last = nullptr;
    unsigned retired_in_turn = 0;
    std::size_t unfinished_segment = 0;  // 1 + the one that the sweep is migrating; 0 none
    // Written by the seat's thread (so no RMW is needed), read by stats(); relaxed, they are
    // counts.
    Counter<std::uint64_t> entries_made{0};
    Counter<std::uint64_t> entries_dropped{0};
    Counter<std::uint64_t> arrays_made{0};
    Counter<std::uint64_t> arrays_retired{0};
    Counter<std::uint64_t> retired_freed{0};
    Counter<std::uint64_t> arrays_freed{0};
    Counter<std::uint64_t> migrations_started{0};
    Counter<std::uint64_t> refused_keys{0};
  };
  using Threads = Quiescence<Traits, SeatState>;
  using Seat = typename Threads::Seat;

 public:
  class Participant;

  explicit Table(const TableOptions& options);
  ~Table();  // no participant may be left
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // One for each thread that uses the table; online from the start. Throws if there are 256
  // already.
  [[nodiscard]] Participant enroll() { return Participant(*this); }

  // The two misses of a look-up, to be started for a group of keys before the first is decided.
  void prefetch_segment(KeyHash hash) const noexcept {
    __builtin_prefetch(&segments_[segment_of(hash)]);
  }
  void prefetch_slot(KeyHash hash) const noexcept {
    const ArrayRef at{segments_[segment_of(hash)].load(std::memory_order_acquire)};
    if (!at) return;
    // Of the keys of a full array nearly a fifth have spilled into the line behind their home.
    // (Behind the last there is none, and to prefetch what is not there is no access.)
    const auto* const home = reinterpret_cast<const std::byte*>(&at->slot(at.home(print_of(hash))));
    __builtin_prefetch(home, 1);
    __builtin_prefetch(home + kCacheLineBytes, 1);
  }

  // Decides on the key's word and writes what follows from it, as one atomic step.
  //
  //   decide(word, now) -> std::optional<Word>   what to write, or nothing to leave it alone
  //
  // `word` is 0 for a key without an entry; `now` is max(clock, floor) and >= 1. Called again after
  // a lost race; the last call is the one that counts. What it returns is above 0 and below 2^63.
  // An absent key costs a slot only if decide returns something and access is `insert`.
  // `clock` is a reading, or a callable that is asked after the word was loaded (for what gives
  // back).
  template <class Clock, class Decide>
  Outcome update(Participant& participant, KeyHash hash, Access access, Clock&& clock,
                 Decide&& decide) noexcept;

  // The way that nearly all of them take, by itself. Nothing: it is not this key's way now, nothing
  // was written, and update() is to be asked. For who decides most: what this is given stays in
  // registers, where update() may have to hand it on.
  template <class Clock, class Decide>
  std::optional<Outcome> update_near(KeyHash hash, Clock&& clock, Decide&& decide) noexcept;

  // Background work, at most 512 slots of it: visits segments at a pace of once in kSweepTicks, and
  // migrates those that are mostly idle. True if more is due at this clock.
  bool sweep(Participant& participant, Ticks clock) noexcept;

  [[nodiscard]] TableStats stats() const noexcept;
  // Nothing to sweep: no key was ever written.
  [[nodiscard]] bool is_empty() const noexcept { return memory_.resident_bytes() == 0; }

  // For what else is retired by the threads of the table: see Quiescence.
  [[nodiscard]] std::uint64_t stamp() noexcept { return threads_.stamp(); }
  [[nodiscard]] std::uint64_t horizon() noexcept { return threads_.horizon(); }

  // Single steps, for tests. `segment` < segments().
  [[nodiscard]] std::size_t segments() const noexcept { return segment_count_; }
  [[nodiscard]] std::size_t segment_of(KeyHash hash) const noexcept {
    return segment_shift_ == 64 ? 0 : hash.high >> segment_shift_;
  }
  bool begin_migration(Participant& participant, std::size_t segment, Ticks clock) noexcept;
  void help_migration(Participant& participant, std::size_t segment, std::uint32_t slots) noexcept;
  std::uint32_t sweep_segment(Participant& participant, std::size_t segment, Ticks clock) noexcept;

  // Empty, or the invariant that does not hold. Only while no other thread uses the table.
  [[nodiscard]] std::string check_invariants() const;

  static constexpr Ticks kSweepTicks = ticks_from_ns(10'000'000'000);

 private:
  template <class T, class Clock, class Decide>
  friend class Walk;
  friend struct TableAccess;  // of tests/model: single steps on any array of a chain

  enum class Room : std::uint8_t { free, reserved, closed, none };

  Room room_for_new_key(Seat& seat, std::size_t segment, ArrayRef at, bool current,
                        Ticks clock) noexcept;
  ArrayRef open_segment(Seat& seat, std::size_t segment) noexcept;
  ArrayRef link(Seat& seat, std::size_t segment, ArrayRef at, Ticks clock, Need need) noexcept;
  ArrayRef link_to_grow(Seat& seat, std::size_t segment, ArrayRef at, Ticks clock) noexcept;
  // Entries that are not idle, and those that were not a while ago.
  struct Used {
    std::uint64_t live = 0;
    std::uint64_t recent = 0;
  };
  Used count_used(ArrayRef at, Ticks clock) const noexcept;
  std::uint32_t lines_for(ArrayRef at, const Used& used) const noexcept;
  // Who was idle at this moment already is not likely to come again.
  [[nodiscard]] static constexpr Ticks not_recent(Ticks clock) noexcept {
    return clock > Sizing::kRecentTicks ? clock - Sizing::kRecentTicks : 0;
  }
  bool seems_idle(ArrayRef at, Ticks clock, std::uint32_t look) const noexcept;
  Array* make_array(Seat& seat, std::size_t segment, Ticks born, std::uint32_t lines,
                    std::uint32_t previous_slots, Need need) noexcept;
  void release(Seat& seat, Array* array) noexcept;

  template <class Clock, class Decide>
  Outcome update_slowly(Participant& participant, KeyHash hash, Access access, Clock& clock,
                        Decide& decide) noexcept;
  template <class Clock>
  [[nodiscard]] static Ticks read(Clock& clock) noexcept {
    if constexpr (std::is_invocable_v<Clock&>) {
      return clock();
    } else {
      return clock;
    }
  }
  // Not before the born of any array that this thread has found. Relaxed: whoever linked the array
  // had raised the floor or seen it raised before, and the pointer's acquire brings that along.
  [[nodiscard]] Ticks floor() const noexcept { return floor_.load(std::memory_order_relaxed); }
  Ticks raise_floor(Ticks clock) noexcept;

  void tend(Seat& seat, std::size_t segment, Ticks clock) noexcept;
  void migrate(Seat& seat, std::size_t segment, ArrayRef at, std::uint32_t budget) noexcept;
  bool migrate_slot(Seat& seat, std::size_t segment, Slot& slot, ArrayRef next) noexcept;
  bool copy(Seat& seat, std::size_t segment, ArrayRef at, std::uint64_t print, Word carry) noexcept;
  void retire(Seat& seat, Array* array) noexcept;
  void free_retired(Seat& seat) noexcept;

  bool count_claim(Seat& seat, Array& array) noexcept {
    count(seat.own.entries_made);
    return array.claimed.fetch_add(1, std::memory_order_relaxed) + 1 >= array.grow_at;
  }
  static void count(Counter<std::uint64_t>& counter, std::uint64_t more = 1) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  const std::size_t segment_count_;
  const unsigned segment_shift_;
  typename Traits::Memory memory_;
  Threads threads_;
  // Each points to the segment's current array; moved by CAS (acq_rel), read with acquire: who
  // finds an array also finds its header, its zeros and all that was copied into it.
  // Zeros that are touched only where there are keys: half a megabyte at most.
  struct Free {
    void operator()(Atomic<std::uint64_t>* segments) const noexcept { std::free(segments); }
  };
  const std::unique_ptr<Atomic<std::uint64_t>[], Free> segments_;
  // CAS upwards, only: the latest clock reading that an array was linked at.
  alignas(kCacheLineBytes) Atomic<Ticks> floor_{0};
  // Segments that the sweep has visited in all; CAS, relaxed: it hands out work, it carries no
  // data.
  alignas(kCacheLineBytes) Counter<std::uint64_t> swept_{0};
};

// A thread's registration. Belongs to one thread at a time; references into the table live from one
// quiescent state to the next, which never falls into an operation.
template <class Traits>
class Table<Traits>::Participant {
 public:
  Participant(Participant&& other) noexcept
      : table_(std::exchange(other.table_, nullptr)), seat_(other.seat_) {}
  Participant& operator=(Participant&&) = delete;
  ~Participant() {
    if (table_ == nullptr) return;
    offline();
    table_->threads_.leave(*seat_);
  }

  // Between operations, once a loop turn: others may free what this thread could still have seen.
  // Frees a bounded number of retired arrays itself.
  void quiesce() noexcept {
    table_->threads_.quiesce(*seat_);
    table_->free_retired(*seat_);
  }
  // Around a sleep: as good as quiescent all the while. No operation until online() again.
  void offline() noexcept {
    table_->threads_.offline(*seat_);
    table_->free_retired(*seat_);
  }
  void online() noexcept { table_->threads_.online(*seat_); }

 private:
  friend class Table;
  friend struct TableAccess;
  explicit Participant(Table& table) : table_(&table), seat_(&table.threads_.enroll()) { online(); }

  Table* table_;
  Seat* seat_;
};

}  // namespace pail::engine

#include "server/engine/table_check.hpp"      // IWYU pragma: export
#include "server/engine/table_migration.hpp"  // IWYU pragma: export
#include "server/engine/table_sweep.hpp"      // IWYU pragma: export
#include "server/engine/table_walk.hpp"       // IWYU pragma: export
