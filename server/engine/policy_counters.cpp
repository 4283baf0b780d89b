#include "server/engine/policy_counters.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "server/engine/zero_pages.hpp"

namespace pail::engine {
namespace {

constexpr std::uint64_t at(const std::array<std::uint64_t, kPolicyColumns>& sums,
                           PolicyColumn column) noexcept {
  return sums[static_cast<std::size_t>(column)];
}

}  // namespace

PolicySheet::PolicySheet() : slots_(nullptr) {
  constexpr std::size_t kBytes = kSlots * sizeof(Slot);
  std::byte* const memory = map_zeros(kBytes);
  if (memory == nullptr) throw std::bad_alloc();
  // Sixty policies need one page of it, and no huge one.
  static_cast<void>(madvise(memory, kBytes, MADV_NOHUGEPAGE));
  // Zeros are what its atomics would be made of; making them would touch all pages.
  slots_ = reinterpret_cast<Slot*>(memory);
}

PolicySheet::~PolicySheet() {
  munmap(static_cast<void*>(slots_), kSlots * sizeof(Slot));
}

// What was there before keeps its slot, so those that are new are looked at second.
void PolicyCounters::assign(PolicySet& set, std::uint32_t settled) {
  const std::lock_guard lock(mutex_);
  std::vector<Policy*> without;
  for (Policy& policy : set.policies_) {
    const auto found = slot_of_.find(policy.id);
    if (found == slot_of_.end()) {
      without.push_back(&policy);
      continue;
    }
    policy.slot = found->second;
    slots_[policy.slot].seen_in = set.version();
    slots_[policy.slot].gone_in = 0;
  }
  slots_.reserve(std::min(slots_.size() + without.size(), PolicySheet::kSlots));
  std::size_t looked_at = kFirstPolicySlot;
  for (Policy* const policy : without) {
    const std::uint32_t slot = find_room(settled, looked_at);
    if (slot == kSlotOfNobody) continue;  // not counted, before it would be counted wrongly
    slot_of_[policy->id] = slot;
    slots_[slot] = {policy->id, set.version(), 0, sum(slot)};
    policy->slot = slot;
  }
  for (std::size_t i = kFirstPolicySlot; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.seen_in != set.version() && slot.gone_in == 0) slot.gone_in = set.version();
  }
}

// An unused one, else one of a policy that has gone and that nobody can be deciding by. None of
// those `looked_at` becomes one while slots are assigned, so they are looked at once.
std::uint32_t PolicyCounters::find_room(std::uint32_t settled, std::size_t& looked_at) noexcept {
  if (slots_.size() < PolicySheet::kSlots) {
    slots_.push_back({});  // there is room: reserved
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  for (; looked_at < slots_.size(); ++looked_at) {
    const Slot& slot = slots_[looked_at];
    if (slot.gone_in == 0 || slot.gone_in > settled) continue;
    slot_of_.erase(slot.id);
    return static_cast<std::uint32_t>(looked_at++);
  }
  return kSlotOfNobody;
}

PolicySheet& PolicyCounters::lend() {
  const std::lock_guard lock(mutex_);
  if (!idle_.empty()) {
    PolicySheet& sheet = *idle_.back();
    idle_.pop_back();
    return sheet;
  }
  idle_.reserve(sheets_.size() + 1);  // so that giving back needs no memory
  sheets_.push_back(std::make_unique<PolicySheet>());
  return *sheets_.back();
}

void PolicyCounters::give_back(PolicySheet& sheet) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&sheet);
}

PolicyCounters::Sums PolicyCounters::sum(std::uint32_t slot) const noexcept {
  Sums sums{};
  for (const auto& sheet : sheets_) {
    for (std::size_t i = 0; i < kPolicyColumns; ++i) sums[i] += sheet->read(slot, i);
  }
  return sums;
}

PolicyCounts PolicyCounters::of(std::uint32_t id) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = slot_of_.find(id);
  if (found == slot_of_.end()) return {};
  Sums sums = sum(found->second);
  for (std::size_t i = 0; i < kPolicyColumns; ++i) sums[i] -= slots_[found->second].base[i];
  const std::uint64_t shadow = at(sums, PolicyColumn::shadow);
  return {.admitted = at(sums, PolicyColumn::admitted) + shadow,
          .denied = at(sums, PolicyColumn::denied),
          .shed = at(sums, PolicyColumn::shed),
          .never = at(sums, PolicyColumn::never),
          .table_full = at(sums, PolicyColumn::table_full),
          .shadow = shadow,
          .expired = at(sums, PolicyColumn::expired),
          .tokens = at(sums, PolicyColumn::tokens)};
}

std::uint64_t PolicyCounters::unknown() const noexcept {
  const std::lock_guard lock(mutex_);
  return sum(kSlotOfUnknown)[0];
}

}  // namespace pail::engine
