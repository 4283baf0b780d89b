// What takes can still be settled, and what leases returned: receipts that a connection may hand
// in, once each.
//
// A receipt is worth tokens, so it is bound to the connection that it was given to, is used up by
// being handed in, and expires. One ledger a shard, used by its thread only; records lie in one
// array whose memory is touched as it is needed. Two limits hold: kMaxGrants of a connection, and
// the capacity of the shard.
//
//   id:  generation (32) | index + 1 (32)      a record used again has another generation
//
// Records are in two lists through indices: of their owner, and of all in the order of giving. So
// nothing is ever searched for. Where all live equally long, that is the order of expiry; where
// not, as leases do not, an expired one is worth nothing, but its place is free only when those
// given before it have expired, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "server/engine/limit.hpp"

namespace pail::frontend {

// A connection's part of the ledger. Empty before it goes: GrantLedger::drop().
struct GrantOwner {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t first = kNone;
  std::uint32_t count = 0;
};

class GrantLedger {
 public:
  static constexpr std::uint64_t kTtlUs = std::uint64_t{10} * 60 * 1'000'000;
  static constexpr std::uint32_t kMaxGrants = 4096;  // of one connection
  static constexpr std::uint32_t kCapacity = 64 * 1024;

  explicit GrantLedger(std::uint32_t capacity = kCapacity)
      : memory_(std::make_unique_for_overwrite<std::byte[]>(capacity * sizeof(Record))),
        capacity_(capacity) {}

  // Whether add() would find room now; forgets what has expired.
  [[nodiscard]] bool has_room(const GrantOwner& owner, std::uint64_t now_us) noexcept;
  // Only where there is room. The owner does not move while it owns anything.
  std::uint64_t add(GrantOwner& owner, const engine::Receipt& receipt, std::uint64_t now_us,
                    std::uint64_t ttl_us = kTtlUs) noexcept;
  // Null: used, expired, never given, or another connection's. Until the next call of another.
  [[nodiscard]] const engine::Receipt* find(const GrantOwner& owner, std::uint64_t id,
                                            std::uint64_t now_us) noexcept;
  // What find() has just found is settled.
  void use_up(std::uint64_t id) noexcept { release(index_of(id)); }
  // The connection goes: what it took stays taken.
  void drop(GrantOwner& owner) noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept { return live_; }

 private:
  static constexpr std::uint32_t kNone = GrantOwner::kNone;
  struct Links {
    std::uint32_t previous;
    std::uint32_t next;
  };
  struct Record {
    engine::Receipt receipt;
    GrantOwner* owner = nullptr;  // null: free
    std::uint64_t expires_us = 0;
    std::uint32_t generation = 0;
    Links of_owner{kNone, kNone};
    Links of_all{kNone, kNone};  // of a free one: `next` free
  };

  [[nodiscard]] static std::uint32_t index_of(std::uint64_t id) noexcept {
    return static_cast<std::uint32_t>(id) - 1;
  }
  void forget_expired(std::uint64_t now_us) noexcept;
  void release(std::uint32_t index) noexcept;

  [[nodiscard]] Record& at(std::uint32_t index) noexcept {
    return reinterpret_cast<Record*>(memory_.get())[index];
  }

  std::unique_ptr<std::byte[]> memory_;  // a Record is made where one is first needed
  std::uint32_t capacity_;
  std::uint32_t used_ = 0;  // records that were ever used
  std::uint32_t live_ = 0;
  std::uint32_t first_free_ = kNone;
  std::uint32_t oldest_ = kNone;
  std::uint32_t newest_ = kNone;
};

}  // namespace pail::frontend
