// The interleaving explorer: a small world in which the real table (server/engine/table.hpp) runs
// under a scheduler, and every atomic access is a point at which another thread may come in.
//
// One exploration is one program on one table: two or three threads (fibers of one real thread),
// each a string of operations. The program is run again and again, each time by another schedule,
// until all schedules with at most so many preemptions have been seen. A schedule is a list of
// choices; the next one differs in the last choice that has an alternative left: depth first, by
// running again from the start, so the code under test needs no support for going back.
//
// What is not gone through twice:
//   - States met before. What a thread will do depends on nothing but the results of its accesses
//     since its operation began, so their hash stands for its stack and registers. With it, all
//     memory, the ghost (below) and whose turn it is make the state.
//   - Orders of an access to a cell that can no longer change (a print that is set, a next array
//     that is linked, a frozen word): a preemption just before it and one just after come to the
//     same. That those never change is checked at every write.
//
// Beside the table stands a ghost: one word a key, in one place, changed at the very step at which
// the table's word is. What an operation is shown must be worth as much as the ghost's word at that
// step, so what is written is the outcome of one order of the operations, and that order is the one
// in which they took effect. The admitted total is held to its bound apart from that.
//
// THIS PROVES SEQUENTIALLY CONSISTENT BEHAVIOUR ONLY: an access takes effect at once and for all.
// What weaker orders could add is argued access by access in the table's comments, and watched by
// the thread sanitizer in tests/stress.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/engine/table_flaw.hpp"
#include "server/engine/ticks.hpp"

namespace pail::model {

using engine::Ticks;
using engine::Word;

inline constexpr std::size_t kMaxThreads = 3;
inline constexpr std::size_t kMaxKeys = 3;
inline constexpr std::uint32_t kMaxSlots = 8;

// The model's unit of time: that of the table's coarsest use of the clock (kRetryShift), so that it
// matters here too. Settings and programs count in these units.
inline constexpr Ticks kUnit = Ticks{1} << 32;

// What is explored.
struct Setting {
  struct Entry {
    unsigned key;  // 1 to kMaxKeys
    Ticks word;
  };

  std::vector<std::string> programs;  // a thread each, an operation a letter: see operations.cpp
  std::vector<Entry> entries;         // in the table at the start; the time is then 3
  // Slots of the next array, by the slots of the one before; [0]: of the first.
  std::array<std::uint32_t, kMaxSlots + 1> next_slots{};
  std::uint32_t grow_below_full = 0;  // a migration begins at so many free slots
  std::uint32_t close_below_full = 0;
  std::size_t max_arrays = 1000;  // the memory limit, for growth; one more for reclaim
  bool spread = false;            // homes differ by key; else all are slot 0
  Ticks increment = 1;            // of a take
  Ticks tolerance = 2;
  engine::Flaw flaw = engine::Flaw::none;

  [[nodiscard]] std::string name() const;
};

struct Limits {
  unsigned preemptions = 2;
  // Not 0: so many schedules by chance instead, with any number of preemptions, and relaxed
  // accesses are points as well.
  std::uint64_t random_runs = 0;
  std::uint64_t seed = 0;
};

struct Report {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // how it came about
  std::uint64_t runs = 0;
  std::uint64_t states = 0;
};

// May be called from several real threads at once.
[[nodiscard]] Report explore(const Setting& setting, const Limits& limits);

}  // namespace pail::model
