// Deliberate breakages of the table's protocol, for proving that the proof would notice. A build
// for use has `none` (LiveTraits), a constant, so nothing of this is in it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pail::engine {

// Each one leaves out one line of the protocol (the numbered rules in table.hpp say what for).
enum class Flaw : std::uint8_t {
  none,
  drop_by_own_clock,         // idleness judged by the helper's clock, not by next.born
  no_born_floor,             // decisions by the caller's clock alone
  born_not_monotone,         // next.born is the linker's clock alone
  frozen_zero_is_done,       // a copier that meets its key frozen at 0 stops
  frozen_zero_clears_carry,  // a walker that meets its key frozen at 0 forgets what it carries
  tombstone_drops_carry,     // a walker that meets a tombstone forgets what it carries
  other_frozen_sends_on,     // another key's frozen slot is taken for a reason to leave the array
  already_frozen_is_done,    // a helper leaves the copy to whoever froze the slot
  idle_before_freeze,        // idleness judged on a load before the freeze
  cursor_before_work,        // the cursor moves before its slots are done
  raise_to_max,              // a copy raises a lower word instead of installing over 0 only
  reset_to_zero,             // RESET writes 0 (the caller's decision, in tests)
  no_tombstones,             // empty slots stay open behind the cursor
  skip_when_crowded,         // a new key leaves an empty slot open and goes on to next
  refund_by_turn_clock,      // a refund decays by the turn's clock (the caller's clock, in tests)
  retire_before_unlink,      // an array is retired before the segment points past it
  free_at_once,              // a retired array is freed without waiting
  lost_claim_moves_on,       // after a lost claim the next slot is looked at, not the same
  copy_counts_at_claim,      // a copy is done once its slot is claimed
  start_at_newest,           // a walk starts in the newest array
  near_over_frozen,          // the short way writes over a frozen word
  near_without_floor,        // the short way decides by the caller's clock alone
  near_floor_first,          // the short way reads the floor before it has found the array
  near_decides_once,         // the short way writes what it decided before it lost a race
};

// Besides none.
inline constexpr std::size_t kFlaws = static_cast<std::size_t>(Flaw::near_decides_once);

// The short way of update() has flaws of its own, and would hide those of the walk.
[[nodiscard]] constexpr bool takes_short_way(Flaw flaw) noexcept {
  return flaw == Flaw::none || flaw >= Flaw::near_over_frozen;
}

}  // namespace pail::engine
