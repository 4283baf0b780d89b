// The bare table: what the machine can do at best for a table of limits, and so what the engine is
// measured against. 16-byte slots {fingerprint, time}, linear probing, one compare-exchange a take,
// a batch prefetched before it is decided. No hash of bytes, no policy, no growth, no reclaim: the
// number of a key is mixed to its fingerprint, and a key that was never put in is not asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "bench/random.hpp"

namespace pail::bench {

class BareTable {
 public:
  // `limit` in units of `now`: how far a time may run ahead of it.
  struct Limit {
    std::uint64_t a_token;
    std::uint64_t tolerance;
  };

  // Of the smallest power of two that `keys` fill by at most 0.6; the keys 0 to keys - 1 are in it.
  // The error says that there is no memory.
  [[nodiscard]] static tl::expected<BareTable, std::string> make(std::uint32_t keys);
  ~BareTable();
  BareTable(BareTable&& other) noexcept;
  BareTable& operator=(BareTable&&) = delete;

  // Takes a token of each key; how many were admitted. Any number of threads at a time.
  template <std::size_t kCount>
  [[nodiscard]] std::uint64_t take(const std::array<std::uint32_t, kCount>& keys, std::uint64_t now,
                                   Limit limit) noexcept {
    std::array<std::uint64_t, kCount> fingerprints;
    for (std::size_t i = 0; i < kCount; ++i) {
      fingerprints[i] = fingerprint_of(keys[i]);
      __builtin_prefetch(&slots_[home_of(fingerprints[i])], 1);
    }
    std::uint64_t admitted = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      if (take_one(slot_of(fingerprints[i]), now, limit)) ++admitted;
    }
    return admitted;
  }

  // As fresh as after make().
  void reset() noexcept;

 private:
  struct Slot {
    std::atomic<std::uint64_t> fingerprint;
    std::atomic<std::uint64_t> time;
  };
  static_assert(sizeof(Slot) == 16);

  BareTable(Slot* slots, std::size_t count) noexcept : slots_(slots), mask_(count - 1) {}

  [[nodiscard]] static std::uint64_t fingerprint_of(std::uint32_t key) noexcept {
    return Random(key).next() | 1;  // 0 is an empty slot
  }
  [[nodiscard]] std::size_t home_of(std::uint64_t fingerprint) const noexcept {
    return (fingerprint >> 1) & mask_;
  }
  [[nodiscard]] Slot& slot_of(std::uint64_t fingerprint) noexcept {
    // Acquire, as in a table that grows: a fingerprint is published before its slot is used.
    for (std::size_t i = home_of(fingerprint);; i = (i + 1) & mask_) {
      if (slots_[i].fingerprint.load(std::memory_order_acquire) == fingerprint) return slots_[i];
    }
  }
  [[nodiscard]] static bool take_one(Slot& slot, std::uint64_t now, Limit limit) noexcept {
    std::uint64_t time = slot.time.load(std::memory_order_relaxed);
    while (true) {
      const std::uint64_t next = (time > now ? time : now) + limit.a_token;
      if (next - now > limit.tolerance) return false;
      if (slot.time.compare_exchange_weak(time, next, std::memory_order_acq_rel,
                                          std::memory_order_relaxed)) {
        return true;
      }
    }
  }

  Slot* slots_;
  std::size_t mask_;
};

}  // namespace pail::bench
