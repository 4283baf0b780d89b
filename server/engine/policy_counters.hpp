// What happened under each policy, counted by each worker for itself.
//
//   a worker's sheet   [ slot 0 | slot 1 | slot 2 | ... ]     a cache line each
//
//   slot 0    what is nobody's: inline limits, peeks, what was refused outright. It is written so
//             that counting needs no branch, and never read.
//   slot 1    requests for policies that there are not, whatever became of them
//   others    of a policy, from the first set on that has it
//
// A slot belongs to the id of a policy, not to a set: numbers go on where policies are replaced. A
// policy that goes leaves its slot to whoever needs one once no worker decides by a set with it any
// more (and all others are in use); who gets it begins at 0, because what stood there is
// remembered and taken off.
//
// Sheets are mappings of their full size, of which only what is touched is resident: they never
// move, and are never freed before the engine is. So a worker finds no freed memory, whatever
// happens to its policies. The sheet of a worker that has gone goes on under the next one.
//
//   counts    written by the worker that holds the sheet (a load and a store), read by any thread;
//             relaxed: readers want recent numbers, and no order among them
//   the rest  under the mutex, which no request takes
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "server/engine/engine.hpp"
#include "server/engine/policy.hpp"

namespace pail::engine {

// The columns of a slot. The first are verdicts of takes; what was let through because the policy
// is not enforced stands kShadowShift behind its verdict, `admitted`.
enum class PolicyColumn : std::uint8_t {
  admitted,
  denied,
  shed,
  never,
  table_full,
  shadow,
  expired,
  tokens,
};
inline constexpr std::size_t kPolicyColumns = 8;
inline constexpr unsigned kShadowShift = static_cast<unsigned>(PolicyColumn::shadow);
static_assert(static_cast<unsigned>(Verdict::admitted) == 0 &&
              static_cast<unsigned>(Verdict::table_full) ==
                  static_cast<unsigned>(PolicyColumn::table_full) &&
              static_cast<unsigned>(Verdict::busy) < kPolicyColumns);

inline constexpr std::uint32_t kSlotOfNobody = 0;
inline constexpr std::uint32_t kSlotOfUnknown = 1;
inline constexpr std::uint32_t kFirstPolicySlot = 2;

class PolicySheet {
 public:
  // As many as there can be, and as many again that have gone.
  static constexpr std::size_t kSlots = 2 * kMaxPolicies;

  PolicySheet();  // throws std::bad_alloc
  ~PolicySheet();
  PolicySheet(const PolicySheet&) = delete;
  PolicySheet& operator=(const PolicySheet&) = delete;

  void add(std::uint32_t slot, std::size_t column, std::uint64_t n) noexcept {
    std::atomic<std::uint64_t>& value = slots_[slot].counts[column];
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  // One decision, in whose slot it belongs.
  void add(const Decision& decision) noexcept {
    const unsigned shadow = (decision.info & kInfoShadow) * kShadowShift;
    add(decision.slot, static_cast<unsigned>(decision.verdict) + shadow, 1);
    add(decision.slot, static_cast<std::size_t>(PolicyColumn::tokens), decision.granted);
  }
  [[nodiscard]] std::uint64_t read(std::uint32_t slot, std::size_t column) const noexcept {
    return slots_[slot].counts[column].load(std::memory_order_relaxed);
  }

 private:
  struct alignas(64) Slot {
    std::array<std::atomic<std::uint64_t>, kPolicyColumns> counts;
  };
  static_assert(sizeof(Slot) == 64);

  Slot* slots_;
};

class PolicyCounters {
 public:
  // Gives all policies of a set that is to be the next their slots. `settled`: the version of a set
  // of which, or of a newer one, everything is decided by now. Throws std::bad_alloc.
  void assign(PolicySet& set, std::uint32_t settled);

  // For a worker, until it gives it back. Throws std::bad_alloc.
  [[nodiscard]] PolicySheet& lend();
  void give_back(PolicySheet& sheet) noexcept;

  // Any thread. Zeros where there is no such policy, and has not been lately.
  [[nodiscard]] PolicyCounts of(std::uint32_t id) const noexcept;
  [[nodiscard]] std::uint64_t unknown() const noexcept;

 private:
  using Sums = std::array<std::uint64_t, kPolicyColumns>;
  struct Slot {
    std::uint32_t id = 0;
    std::uint32_t seen_in = 0;  // the last version that has it
    std::uint32_t gone_in = 0;  // the first that has not; 0: the newest has it
    Sums base{};                // what stood here when it got the slot
  };

  [[nodiscard]] Sums sum(std::uint32_t slot) const noexcept;
  [[nodiscard]] std::uint32_t find_room(std::uint32_t settled, std::size_t& looked_at) noexcept;

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<PolicySheet>> sheets_;  // of all workers, and of those that were
  std::vector<PolicySheet*> idle_;
  std::vector<Slot> slots_ = std::vector<Slot>(kFirstPolicySlot);
  std::unordered_map<std::uint32_t, std::uint32_t> slot_of_;
};

// A worker's, as long as it lives.
class LentSheet {
 public:
  explicit LentSheet(PolicyCounters& counters) : counters_(counters), sheet_(counters.lend()) {}
  ~LentSheet() { counters_.give_back(sheet_); }
  LentSheet(const LentSheet&) = delete;
  LentSheet& operator=(const LentSheet&) = delete;
  [[nodiscard]] PolicySheet& operator*() const noexcept { return sheet_; }
  [[nodiscard]] PolicySheet* operator->() const noexcept { return &sheet_; }

 private:
  PolicyCounters& counters_;
  PolicySheet& sheet_;
};

}  // namespace pail::engine
