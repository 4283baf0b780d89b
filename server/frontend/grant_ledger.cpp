#include "server/frontend/grant_ledger.hpp"

#include <cassert>
#include <new>

namespace pail::frontend {

bool GrantLedger::has_room(const GrantOwner& owner, std::uint64_t now_us) noexcept {
  forget_expired(now_us);
  return owner.count < kMaxGrants && live_ < capacity_;
}

std::uint64_t GrantLedger::add(GrantOwner& owner, const engine::Receipt& receipt,
                               std::uint64_t now_us, std::uint64_t ttl_us) noexcept {
  assert(owner.count < kMaxGrants && live_ < capacity_);
  std::uint32_t index = first_free_;
  if (index != kNone) {
    first_free_ = at(index).of_all.next;
  } else {
    index = used_++;
    new (&at(index)) Record;
  }
  Record& record = at(index);
  record.receipt = receipt;
  record.owner = &owner;
  record.expires_us = now_us + ttl_us;
  record.of_owner = {kNone, owner.first};
  if (owner.first != kNone) at(owner.first).of_owner.previous = index;
  owner.first = index;
  ++owner.count;
  record.of_all = {newest_, kNone};
  (newest_ != kNone ? at(newest_).of_all.next : oldest_) = index;
  newest_ = index;
  ++live_;
  return std::uint64_t{record.generation} << 32 | (index + 1);
}

const engine::Receipt* GrantLedger::find(const GrantOwner& owner, std::uint64_t id,
                                         std::uint64_t now_us) noexcept {
  const std::uint32_t index = index_of(id);
  if (index >= used_) return nullptr;
  const Record& record = at(index);
  if (record.owner != &owner || record.generation != id >> 32) return nullptr;
  if (now_us < record.expires_us) return &record.receipt;
  release(index);
  return nullptr;
}

void GrantLedger::drop(GrantOwner& owner) noexcept {
  while (owner.first != kNone) release(owner.first);
  assert(owner.count == 0);
}

void GrantLedger::forget_expired(std::uint64_t now_us) noexcept {
  while (oldest_ != kNone && now_us >= at(oldest_).expires_us) release(oldest_);
}

void GrantLedger::release(std::uint32_t index) noexcept {
  Record& record = at(index);
  const Links of_owner = record.of_owner;
  (of_owner.previous != kNone ? at(of_owner.previous).of_owner.next : record.owner->first) =
      of_owner.next;
  if (of_owner.next != kNone) at(of_owner.next).of_owner.previous = of_owner.previous;
  const Links of_all = record.of_all;
  (of_all.previous != kNone ? at(of_all.previous).of_all.next : oldest_) = of_all.next;
  (of_all.next != kNone ? at(of_all.next).of_all.previous : newest_) = of_all.previous;
  --record.owner->count;
  record.owner = nullptr;
  ++record.generation;
  record.of_all.next = first_free_;
  first_free_ = index;
  --live_;
}

}  // namespace pail::frontend
