// What the threads of the model do, letter by letter, and what must be true of it.
//
//   1 2 3   take `increment` from that key, if it then owes `tolerance` at most (a token bucket)
//   p z f   key 1: peek; reset to now; refund of this thread's last take, decayed
//   M       begin the migration of the current array, and do all of it;   m   help by one slot
//   N       the same for the newest array of the chain
//   S       the sweep looks at the segment
//   Q O     a quiescent state (and freeing); offline and online again
//   C R     the true clock moves on by one; this thread reads it for its coming operations
//
// At its end a thread sleeps: it goes offline.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tests/model/world_state.hpp"

namespace pail::engine {

// Into the table, for what the model does to arrays that are not the current one.
struct TableAccess {
  using Table = engine::Table<model::Traits>;

  static void migrate_newest(Table& table, Table::Participant& me, Ticks clock) {
    Table::ArrayRef at{table.segments_[0].load(std::memory_order_acquire)};
    if (!at) return;
    while (const Table::ArrayRef next{at->next.load(std::memory_order_acquire)}) at = next;
    if (!table.link(*me.seat_, 0, at, clock, Need::reclaim)) return;
    table.migrate(*me.seat_, 0, at, at.slots());
  }
  // What a seat holds from one operation to the next.
  static std::uint64_t held(const Table::Participant& me) {
    return reinterpret_cast<std::uintptr_t>(me.seat_->own.retired_first) +
           3 * reinterpret_cast<std::uintptr_t>(me.seat_->own.retired_last) +
           me.seat_->own.unfinished_segment;
  }
  static Table::ArrayRef current(const Table& table) {
    return Table::ArrayRef(table.segments_[0].load(std::memory_order_acquire));
  }
  static void set_current(Table& table, std::uint64_t bits) {
    table.segments_[0].store(bits, std::memory_order_release);
  }
};

}  // namespace pail::engine

namespace pail::model {
namespace {

using engine::Flaw;
using engine::KeyHash;
using engine::Outcome;
using engine::TableAccess;

using Find = engine::Access;

KeyHash hash_of(unsigned key, bool spread) {
  const std::uint64_t home = spread ? (key - 1) * 0x55555555ULL : 0;
  return {.high = 0, .low = home << 32 | key};
}

std::string in_units(Ticks ticks) {
  return std::to_string(ticks / kUnit);
}

}  // namespace

std::string Setting::name() const {
  std::string text;
  for (const std::string& program : programs) text += (text.empty() ? "[" : "|") + program;
  text += "]";
  for (const Entry& entry : entries) {
    text += " " + std::to_string(entry.key) + "=" + std::to_string(entry.word);
  }
  text += " slots";
  std::uint32_t slots = next_slots[0];
  for (int i = 0; i < 4; ++i, slots = next_slots[slots]) text += " " + std::to_string(slots);
  text += spread ? " spread" : "";
  return text + " increment " + std::to_string(increment) + " grow " +
         std::to_string(grow_below_full) + " close " + std::to_string(close_below_full) +
         " arrays " + std::to_string(max_arrays);
}

// Makes what every run begins with, and makes it well: flaws are for the programs.
void World::set_up() {
  const Flaw flaw = std::exchange(setting_.flaw, Flaw::none);
  arena_.clear();
  ghost_ = {};
  count_ = setting_.programs.size();
  table_ = new (table_storage_) Table({.segment_bits = 0});
  for (std::size_t t = 0; t < count_; ++t) threads_[t].participant.emplace(table_->enroll());
  for (const Setting::Entry& entry : setting_.entries) {
    const Word word = entry.word * kUnit;
    table_->update(*threads_[0].participant, hash_of(entry.key, setting_.spread), Find::insert,
                   Ticks{1}, [&](Word, Ticks) -> std::optional<Word> { return word; });
    ghost_.ideal[entry.key] = word;
    // As if just taken.
    if (entry.key == 1 && word > ghost_.clock) {
      ghost_.admitted[ghost_.clock / kUnit] =
          static_cast<std::uint8_t>((word - ghost_.clock) / kUnit / setting_.increment);
    }
  }
  arena_.keep();
  std::memcpy(kept_.table, table_storage_, sizeof table_storage_);
  kept_.segment = TableAccess::current(*table_).bits();
  kept_.ghost = ghost_;
  setting_.flaw = flaw;
}

void World::go_back() {
  arena_.go_back();
  std::memcpy(table_storage_, kept_.table, sizeof table_storage_);
  TableAccess::set_current(*table_, kept_.segment);
  ghost_ = kept_.ghost;
}

void World::tear_down() {
  go_back();
  for (Thread& thread : threads_) thread.participant.reset();
  table_->~Table();
}

// A thread's own state where no operation is under way.
std::uint64_t World::between_operations() const noexcept {
  return TableAccess::held(*threads_[current_].participant);
}

void World::operate(char operation) {
  Thread& me = current();
  me.state.pending.reset();
  me.state.has_written = false;
  switch (operation) {
    case '1':
    case '2':
    case '3':
      return take(static_cast<unsigned>(operation - '0'));
    case 'p':
      return peek();
    case 'z':
      return reset();
    case 'f':
      return refund();
    case 'M':
      return migrate(false);
    case 'm':
      return table_->help_migration(*me.participant, 0, 1);
    case 'N':
      return migrate(true);
    case 'S':
      table_->sweep_segment(*me.participant, 0, me.state.clock);
      return;
    case 'Q':
      return me.participant->quiesce();
    case 'O':
      me.participant->offline();
      return me.participant->online();
    case 'C':
      point();
      ghost_.clock += kUnit;
      if (is_tracing_) tell("the time is " + in_units(ghost_.clock));
      return;
    case 'R':
      return read_clock();
    default:
      stop_run(std::string("no such operation: ") + operation);
  }
}

void World::read_clock() {
  point();
  current().state.clock = ghost_.clock;
  if (is_tracing_) tell("reads the clock: " + in_units(ghost_.clock));
}

void World::migrate(bool newest) {
  Thread& me = current();
  if (newest) return TableAccess::migrate_newest(*table_, *me.participant, me.state.clock);
  if (table_->begin_migration(*me.participant, 0, me.state.clock)) {
    table_->help_migration(*me.participant, 0, kMaxSlots);
  }
}

// An operation is shown a word: now, at this step, it must be worth what the ghost says.
void World::see(unsigned key, Word word, Ticks now) {
  current().state.seen = word;
  if (is_tracing_) {
    tell("is shown key " + std::to_string(key) + " at " + in_units(word) + ", now " +
         in_units(now) + "; it should be " + in_units(ghost_.ideal[key]));
  }
  const Word base = std::max(word, now);
  const Word ideal = std::max(ghost_.ideal[key], now);
  if (base < ideal) stop_run("a take is lost: a word is worth less than it should be");
  if (base > ideal) stop_run("a lowering is undone: a word is worth more than it should be");
}

// `wanted`: the last decision was to write.
void World::check_outcome(Outcome outcome, bool wanted) {
  Thread::State& me = current().state;
  if (outcome == Outcome::written && !me.has_written)
    stop_run("a take is lost: it changed nothing");
  if (outcome != Outcome::written && me.has_written) stop_run("an outcome hides what was done");
  if (outcome == Outcome::unchanged && wanted) stop_run("a decision was not carried out");
  if (outcome == Outcome::full && me.seen != 0) stop_run("a key with an entry is refused as new");
  me.pending.reset();
  me.has_written = false;
}

void World::take(unsigned key) {
  Thread& me = current();
  const Ticks increment = setting_.increment * kUnit;
  const Outcome outcome = table_->update(
      *me.participant, hash_of(key, setting_.spread), Find::insert, me.state.clock,
      [&](Word word, Ticks now) -> std::optional<Word> {
        me.state.pending.reset();
        see(key, word, now);
        const Word base = std::max(word, now);
        if (base + increment > now + setting_.tolerance * kUnit) return std::nullopt;
        me.state.pending = Pending{Pending::Kind::take, key, base, now, base + increment};
        return base + increment;
      });
  check_outcome(outcome, me.state.pending.has_value());
}

void World::peek() {
  Thread& me = current();
  const Outcome outcome =
      table_->update(*me.participant, hash_of(1, setting_.spread), Find::find, me.state.clock,
                     [&](Word word, Ticks now) -> std::optional<Word> {
                       see(1, word, now);
                       return std::nullopt;
                     });
  check_outcome(outcome, false);
}

void World::reset() {
  Thread& me = current();
  const Outcome outcome = table_->update(
      *me.participant, hash_of(1, setting_.spread), Find::find, me.state.clock,
      [&](Word word, Ticks now) -> std::optional<Word> {
        me.state.pending.reset();
        see(1, word, now);
        if (word <= now) return std::nullopt;
        const Word next = setting_.flaw == Flaw::reset_to_zero ? 0 : now;
        me.state.pending = Pending{Pending::Kind::reset, 1, std::max(word, now), now, next};
        return next;
      });
  check_outcome(outcome, me.state.pending.has_value());
}

// The clock is read after the word: between the two others may come in, so what was seen is held to
// the ghost when the decision is carried out, not before.
void World::refund() {
  Thread& me = current();
  if (me.state.granted_at == 0) return;
  const Ticks increment = setting_.increment * kUnit;
  const auto fresh_clock = [&]() -> Ticks {
    if (setting_.flaw == Flaw::refund_by_turn_clock) return me.state.clock;
    point();
    note(ghost_.clock);
    if (is_tracing_) tell("reads the clock for it: " + in_units(ghost_.clock));
    return ghost_.clock;
  };
  const Outcome outcome =
      table_->update(*me.participant, hash_of(1, setting_.spread), Find::find, fresh_clock,
                     [&](Word word, Ticks now) -> std::optional<Word> {
                       me.state.pending.reset();
                       me.state.seen = word;
                       if (word <= now || me.state.granted_at == 0) return std::nullopt;
                       const Ticks elapsed = now - std::min(now, me.state.granted_at);
                       const Ticks left = increment - std::min(elapsed, increment);
                       const Word next = std::max(now, word - left);
                       if (next == word) return std::nullopt;
                       me.state.pending = Pending{Pending::Kind::refund, 1, word, now, next};
                       return next;
                     });
  check_outcome(outcome, me.state.pending.has_value());
}

void World::after_write(const void* cell, std::uint64_t to) {
  if (!is_scheduling_) return;
  const Arena::Cell kind = arena_.kind(cell);
  if (kind == Arena::Cell::print && to != engine::kTombstone && arena_.unfrozen(to) > 1) {
    stop_run("two live entries of one key");
  }
  Thread::State& me = current().state;
  if (kind != Arena::Cell::word || !me.pending || me.pending->next != to ||
      arena_.print_of_word(cell) != hash_of(me.pending->key, setting_.spread).low) {
    return;
  }
  // Every decision changes the word, so this is a copy that the thread made in between. If it was
  // none, check_outcome() will miss the decision.
  if (ghost_.ideal[me.pending->key] == to) return;
  const Pending pending = *me.pending;
  me.pending.reset();
  me.has_written = true;
  commit(pending);
}

// A decision takes effect, here and on the ghost.
void World::commit(const Pending& pending) {
  Thread::State& me = current().state;
  Word& ideal = ghost_.ideal[pending.key];
  const Ticks now = pending.now;
  const Ticks increment = setting_.increment * kUnit;
  const Word base = std::max(ideal, now);
  switch (pending.kind) {
    case Pending::Kind::take:
      tell(pending.key == 1 ? "ADMITTED, key 1" : "ADMITTED, another key");
      ideal = base + increment;
      if (pending.key != 1) break;
      ++ghost_.admitted[now / kUnit];
      me.granted_at = now;
      if (exceeds_bound()) stop_run("more is admitted than the bound");
      break;
    case Pending::Kind::reset:
      tell("RESET");
      ideal = now;
      ghost_.admitted.fill(0);
      break;
    case Pending::Kind::refund: {
      tell("REFUNDED");
      const Ticks elapsed = now - std::min(now, me.granted_at);
      ideal = std::max(now, base - (increment - std::min(elapsed, increment)));
      // What was granted before a reset is given back on top of that.
      std::uint8_t& granted = ghost_.admitted[me.granted_at / kUnit];
      if (granted > 0) {
        --granted;
      } else {
        ++ghost_.given_on_top;
      }
      me.granted_at = 0;
      break;
    }
  }
  if (ideal > ghost_.clock + setting_.tolerance * kUnit && pending.kind == Pending::Kind::take) {
    stop_run("more is owed than the tolerance");
  }
  if (pending.base < base) stop_run("a take is lost: a decision was carried out on too low a word");
  if (pending.base > base) stop_run("a lowering is undone: a decision was made on too high a word");
}

// In any interval: burst + rate x its length, from the last reset on.
bool World::exceeds_bound() const noexcept {
  for (std::size_t from = 0; from < ghost_.admitted.size(); ++from) {
    Ticks tokens = 0;
    const Ticks burst = setting_.tolerance + ghost_.given_on_top * setting_.increment;
    for (std::size_t to = from; to < ghost_.admitted.size(); ++to) {
      tokens += ghost_.admitted[to] * setting_.increment;
      if (ghost_.admitted[to] != 0 && tokens > burst + (to - from)) return true;
    }
  }
  return false;
}

// All threads have ended: the table is whole, and every key is worth what it should be, even to the
// oldest clock.
std::string World::check_end() {
  using ArrayRef = engine::ArrayRef<Traits>;
  for (ArrayRef at = TableAccess::current(*table_); at;
       at = ArrayRef(at->next.load(std::memory_order_acquire))) {
    if (arena_.is_freed(at.array())) return "a freed array is still in the chain";
  }
  if (std::string fault = table_->check_invariants(); !fault.empty()) return fault;
  Ticks oldest = ghost_.clock;
  for (std::size_t t = 0; t < count_; ++t) oldest = std::min(oldest, threads_[t].state.clock);
  for (unsigned key = 1; key <= kMaxKeys; ++key) {
    Word word = 0;
    Ticks at = 0;
    table_->update(*threads_[0].participant, hash_of(key, setting_.spread), Find::find, oldest,
                   [&](Word seen, Ticks now) -> std::optional<Word> {
                     word = seen;
                     at = now;
                     return std::nullopt;
                   });
    const Word ideal = std::max(ghost_.ideal[key], at);
    const std::string which = "key " + std::to_string(key);
    if (std::max(word, at) < ideal) return which + " is worth less at the end than it should be";
    if (std::max(word, at) > ideal) return which + " is worth more at the end than it should be";
  }
  return {};
}

}  // namespace pail::model
