// The table of keys, in its simplest form that keeps the promises: one array of fixed size, shared
// by all threads, whose entries are never given up. (table.hpp, which grows and reclaims, will
// take its place behind the same interface.)
//
// A slot is {fingerprint, word}: 16 bytes, four to a cache line. Invariants:
//   1. A fingerprint goes from 0 to one key's and never changes again, so a take is one
//   compare-and-swap on the
//      word: no ABA, the word is the whole state.
//   2. A new entry's word is 0, which is a fresh key: a half-done insert needs no special state.
//   3. At most max_keys slots are claimed, half of the array: a search always ends at an empty
//   slot.
//   4. A key is in the first slot on its path that is its own; there is never an empty slot before
//   it.
//
// Progress: lock-free. Of the threads that race for one slot, one succeeds at every step.
#pragma once
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

#include "server/engine/table_types.hpp"

namespace pail::engine {
class SimpleTable {
 public:
  struct Participant {};

  // Room for `max_keys`, at a load of at most one half. Memory is touched as keys come. Throws
  // std::bad_alloc.
  explicit SimpleTable(std::size_t max_keys)
      : mask_(std::bit_ceil(max_keys * 2) - 1), max_keys_(max_keys) {
    void* const memory = ::mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    // Keys lie at random, so a table of many small pages misses the TLB at every take.
    if (bytes() >= kHugePagesFrom) ::madvise(memory, bytes(), MADV_HUGEPAGE);
    slots_ =
        static_cast<Slot*>(memory);  // zeroed by the kernel: every slot empty, every word fresh
  }
  ~SimpleTable() { ::munmap(slots_, bytes()); }
  SimpleTable(const SimpleTable&) = delete;
  SimpleTable& operator=(const SimpleTable&) = delete;

  Participant enroll() { return {}; }
  void prefetch_segment(KeyHash) const noexcept {}
  void prefetch_slot(KeyHash hash) const noexcept {
    __builtin_prefetch(&slots_[hash.high & mask_], 1);
  }

  // Calls decide(word, clock) -> optional next word, again after each lost race, until its answer
  // stands. `find` creates nothing: an absent key is decided as word 0 and the answer is dropped.
  template <class F>
  Outcome update(Participant&, KeyHash hash, Access access, std::uint64_t clock,
                 F&& decide) noexcept {
    const std::uint64_t print = hash.low != 0 ? hash.low : 1;
    for (std::size_t i = hash.high & mask_;; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      // Acquire and release on both fields: a thread that sees the claim of a slot or a word sees
      // all that its writer saw before.
      std::uint64_t owner = slot.print.load(std::memory_order_acquire);
      if (owner == 0) {
        if (access == Access::find) {
          decide(std::uint64_t{0}, clock);
          return Outcome::unchanged;
        }
        if (!reserve_room()) return Outcome::full;
        if (slot.print.compare_exchange_strong(owner, print, std::memory_order_acq_rel,
                                               std::memory_order_acquire)) {
          owner = print;
        } else {
          used_.fetch_sub(1, std::memory_order_relaxed);  // somebody else claimed the slot
        }
      }
      if (owner != print) continue;
      std::uint64_t word = slot.word.load(std::memory_order_acquire);
      for (;;) {
        const std::optional<std::uint64_t> next = decide(word, clock);
        if (!next) return Outcome::unchanged;
        if (slot.word.compare_exchange_weak(word, *next, std::memory_order_acq_rel,
                                            std::memory_order_acquire))
          return Outcome::written;
      }
    }
  }

 private:
  // Room is taken before the slot is, so that never more than max_keys_ slots are claimed and every
  // search meets an empty one: checked afterwards, racing threads filled a small table and searched
  // for ever. A room taken for a race that is then lost may cost another new key a `full`, at the
  // limit and for a moment. Relaxed: the count guards only itself.
  [[nodiscard]] bool reserve_room() noexcept {
    if (used_.load(std::memory_order_relaxed) >= max_keys_) return false;
    if (used_.fetch_add(1, std::memory_order_relaxed) < max_keys_) return true;
    used_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  struct Slot {
    std::atomic<std::uint64_t> print{0}, word{0};
  };
  static_assert(sizeof(Slot) == 16);
  static constexpr std::size_t kHugePagesFrom = std::size_t{4} * 1024 * 1024;

  [[nodiscard]] std::size_t bytes() const noexcept { return (mask_ + 1) * sizeof(Slot); }

  std::size_t mask_;
  std::size_t max_keys_;
  Slot* slots_ = nullptr;
  alignas(64) std::atomic<std::size_t> used_{0};
};
}  // namespace pail::engine
