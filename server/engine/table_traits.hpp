// What the table is built from, so that tests can run the same code on other atoms.
//
// Traits gives the atomic type (the interleaving explorer counts and schedules every access), the
// memory, the sizes, and a flaw: a deliberate breakage of the protocol that the proof in
// tests/model must catch. Here there is none, and the compiler removes every question about it.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "server/engine/array_memory.hpp"
#include "server/engine/table_flaw.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

struct LiveSizing {
  // An operation that meets a migration does at most so much of it. Every array has room for a
  // quarter of its size in new keys before it needs the next, so 8 would be enough; 64 keeps the
  // lines of both arrays in the cache while they are used.
  static constexpr std::uint32_t kHelpSlots = 64;
  // What one look at an array may cost in the background, and how many slots estimate its live
  // keys.
  static constexpr std::uint32_t kSampleSlots = 512;
  static constexpr std::uint32_t kGlanceSlots = 32;
  // A freed block costs a tenth of a microsecond; a chunk that goes back to the kernel, 60 us. So
  // many in a turn, or twice what the turn retired: so that what waits does not grow.
  static constexpr unsigned kFreesPerTurn = 64;
  // A key that was idle for no longer than this is likely to come again, so room is kept for it:
  // arrays made for the live alone would be full again at once, and replaced without end, where
  // keys are idle between two takes (a limit of 100/s forgets a take after 10 ms).
  static constexpr Ticks kRecentTicks = ticks_from_ns(1'000'000'000);

  // A new array is filled to 0.55.
  static std::uint32_t lines_for(std::uint64_t keys, std::uint32_t) noexcept {
    return static_cast<std::uint32_t>((keys * 20 / 11 + 4) / 4);
  }

  // Grows when filled to between 0.75 and 0.85, by segment: if all of them grew at the same fill,
  // the whole table would be copied at once.
  static std::uint32_t grow_at(std::uint32_t slots, std::size_t segment) noexcept {
    const std::uint64_t stagger = (segment * 0x9E3779B97F4A7C15U) >> 56;  // 0 to 255
    const std::uint64_t share = 768 + stagger * 102 / 255;                // of 1024
    return static_cast<std::uint32_t>(slots * share / 1024);
  }

  // No new key above this, so that a search ends at an empty slot soon.
  static std::uint32_t close_at(std::uint32_t slots) noexcept { return slots - slots / 8; }
};

struct LiveTraits {
  template <class T>
  using Atomic = std::atomic<T>;
  // For counts that no correctness depends on.
  template <class T>
  using Counter = std::atomic<T>;
  using Memory = ArrayMemory;
  using Sizing = LiveSizing;
  // Enrolled at once, at most.
  static constexpr std::size_t kMaxThreads = 256;
  // Slots per cache line: a key's home is the start of a line.
  static constexpr std::uint32_t kLineSlots = 4;
  static constexpr Flaw flaw() noexcept { return Flaw::none; }
  static constexpr Ticks own_clock() noexcept { return 0; }  // of a flaw
};

}  // namespace pail::engine
