// The explorer for what is built of several entries: sliding windows, permits, and several limits
// in one decision (server/engine/counted_entries.hpp, permit_entries.hpp, layers.hpp).
//
// As world.hpp, one floor up: here an access to a word is a step, and the table is one cell an
// entry. That the real table behaves like that is what world.hpp shows. Sequentially consistent,
// too.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace pail::model {

// Left out on purpose, by the store or the caller; the code under test is the same.
enum class LimitsFlaw : std::uint8_t {
  none,
  no_closed_bit,            // what closes the previous window is not written
  release_without_round,    // a permit is given back to the present round, whichever it was of
  give_back_by_turn_clock,  // a lost race gives back by the reading of its turn
};
inline constexpr std::size_t kLimitsFlaws = 3;

// Programs: an operation a letter.
//
//   s       take from a sliding window of 2 in 2 seconds
//   a n e   one permit of 2 seconds: acquire, renew, release
//   1 2     take from bucket A (1/s, burst 2), or B (1/s, burst 1)
//   x y     take from A and B, or from the window and B: all or none
//   C R     the true clock moves on by a second; this thread reads it
//   B       idle entries are dropped, up to this thread's reading
struct LimitsSetting {
  std::vector<std::string> programs;
  LimitsFlaw flaw = LimitsFlaw::none;
};

struct LimitsReport {
  std::string violation;  // empty: none
  std::uint64_t runs = 0;
};

// Every schedule with so many preemptions at most.
[[nodiscard]] LimitsReport explore(const LimitsSetting& setting, unsigned preemptions);

}  // namespace pail::model
