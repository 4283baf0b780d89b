// The word of the limits that count in windows: fixed_window, sliding_window, concurrency.
//
//    63 62                          33 32 31                               0
//   +--+------------------------------+--+---------------------------------+
//   | t| mark: end of life / 2^33     |cl| count                           |
//   +--+------------------------------+--+---------------------------------+
//    t: the table's own.  cl: closed, no more is counted in this window
//
// The mark is the moment at which the entry means nothing any more, in steps of 2^33 ticks (0.54 s)
// and rounded up. Windows last whole seconds, so no two of one key have the same mark: it names the
// window. A later window has a larger word, so a word <= now is idle here too, and word 0 is fresh.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "server/engine/token_bucket.hpp"

namespace pail::engine {

inline constexpr unsigned kMarkShift = 33;
inline constexpr Word kClosedBit = Word{1} << 32;
inline constexpr Word kCountMask = kClosedBit - 1;
inline constexpr Ticks kMarkTicks = Ticks{1} << kMarkShift;
inline constexpr Ticks kTicksPerSecond = kTicksPerNs * 1'000'000'000;
static_assert(kMarkTicks < kTicksPerSecond, "a mark names one window");

using Mark = std::uint32_t;  // 30 bits; never 0 for a window

[[nodiscard]] constexpr Mark mark_of(Ticks end_of_life) noexcept {
  return static_cast<Mark>((end_of_life + kMarkTicks - 1) >> kMarkShift);
}
[[nodiscard]] constexpr Word counted_word(Mark mark, std::uint64_t count,
                                          bool is_closed = false) noexcept {
  return (Word{mark} << kMarkShift) | (is_closed ? kClosedBit : 0) | count;
}
[[nodiscard]] constexpr Mark mark_in(Word word) noexcept {
  return static_cast<Mark>(word >> kMarkShift);
}
[[nodiscard]] constexpr bool is_closed(Word word) noexcept {
  return (word & kClosedBit) != 0;
}
// Of that window: another window's entry counts nothing.
[[nodiscard]] constexpr std::uint32_t count_in(Word word, Mark mark) noexcept {
  return mark_in(word) == mark ? static_cast<std::uint32_t>(word & kCountMask) : 0;
}

// The word after giving back `tokens` counted in the window of `mark`, or 0 to leave it alone: what
// was counted in another window, or has been given back, is nobody's to give. Never the word 0.
[[nodiscard]] constexpr Word uncounted(Word word, Mark mark, std::uint32_t tokens) noexcept {
  return tokens != 0 && count_in(word, mark) >= tokens ? word - tokens : 0;
}

// A limit on a count.
struct CountedLimit {
  std::uint32_t most = 0;
  std::array<std::uint32_t, kPriorities> reserve{};  // each at most `most`
  [[nodiscard]] constexpr std::uint32_t most_for(std::uint8_t priority) const noexcept {
    return most - reserve[priority];
  }
  friend bool operator==(const CountedLimit&, const CountedLimit&) = default;
};

[[nodiscard]] constexpr bool never_fits(const CountedLimit& limit, const Ask& ask) noexcept {
  const std::uint32_t least = ask.partial ? std::min<std::uint32_t>(ask.cost, 1) : ask.cost;
  return least > limit.most_for(ask.priority);
}

struct CountedStep {
  Verdict verdict = Verdict::admitted;
  std::uint32_t granted = 0;
};

// Decides an ask for which never_fits() is false. `Use` says what is in use by
//
//   room(use, most)        how many more fit under `most`
//   wait(use, most, cost)  ticks until `cost` fits, if it does not and cost <= most
//   reset_after(use)       ticks until nothing is in use, if nothing is taken
template <class Use>
[[nodiscard]] constexpr CountedStep decide(const CountedLimit& limit, const Use& use,
                                           const Ask& ask) noexcept {
  if (ask.cost == 0) return {};
  const std::uint32_t there = room(use, limit.most_for(ask.priority));
  const std::uint32_t cost = ask.partial ? std::clamp<std::uint32_t>(there, 1, ask.cost) : ask.cost;
  if (cost <= there) return {Verdict::admitted, cost};
  return {cost <= room(use, limit.most) ? Verdict::shed : Verdict::denied, 0};
}

// After a refusal. A partial ask waits for its first token.
template <class Use>
[[nodiscard]] constexpr Ticks retry_after(const CountedLimit& limit, const Use& use,
                                          const Ask& ask) noexcept {
  return wait(use, limit.most_for(ask.priority), ask.partial ? 1 : ask.cost);
}

}  // namespace pail::engine
