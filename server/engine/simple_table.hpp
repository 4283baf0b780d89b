// The simplest table that keeps the promises: one array of fixed size, never cleaned. It goes when
// the table of segments arrives, whose interface this is.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace pail::engine {
struct KeyHash {
  std::uint64_t high = 0, low = 0;
};
enum class Access : std::uint8_t { find, insert };
enum class Outcome : std::uint8_t { unchanged, written, full };
struct StdAtomics {};

template <class Atomics>
class Table {
 public:
  struct Participant {};
  explicit Table(std::size_t max_keys)
      : mask_(std::bit_ceil(max_keys * 2) - 1), max_(max_keys), slots_(new Slot[mask_ + 1]) {}
  Participant enroll() { return {}; }
  void prefetch_segment(KeyHash) const noexcept {}
  void prefetch_slot(KeyHash hash) const noexcept {
    __builtin_prefetch(&slots_[hash.high & mask_], 1);
  }
  template <class F>
  Outcome update(Participant&, KeyHash hash, Access access, std::uint64_t clock,
                 F&& decide) noexcept {
    const std::uint64_t print = hash.low != 0 ? hash.low : 1;
    for (std::size_t i = hash.high & mask_;; i = (i + 1) & mask_) {
      Slot& slot = slots_[i];
      std::uint64_t owner = slot.print.load(std::memory_order_acquire);
      if (owner == 0) {
        if (access == Access::find) {
          decide(std::uint64_t{0}, clock);
          return Outcome::unchanged;
        }
        if (used_.load() >= max_) return Outcome::full;
        if (slot.print.compare_exchange_strong(owner, print)) {
          used_++;
          owner = print;
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
  struct Slot {
    std::atomic<std::uint64_t> print{0}, word{0};
  };
  std::size_t mask_, max_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<std::size_t> used_{0};
};
}  // namespace pail::engine
