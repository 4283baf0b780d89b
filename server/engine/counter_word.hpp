// The word of a counter: how far it has counted, and when it ends.
//
//             62                    24 23                    2   1    0
//            +------------------------+-----------------------+----+---+
//   fine     | end / 2^24 ticks       | value + 2^21          | ex | 0 |   ends within 1.05 ms
//            +------------------------+-----------------------+----+---+
//             62          35 34                              2   1    0
//            +--------------+---------------------------------+----+---+
//   coarse   | end / 2^35   | value + 2^32                    | ex | 1 |   ends within 2.1 s
//            +--------------+---------------------------------+----+---+
//    ex: the end was set by somebody, not by default. Bit 63 is the table's own.
//
// Counts below two million, which is nearly all, end to the millisecond; larger ones need the bits.
// The end is always rounded up: nothing is forgotten early. A word <= now has ended, as everywhere,
// and word 0 is a counter that nobody has touched. A stored value of 0 is nobody's value: it says
// "deleted" to whoever reads it, whatever his clock says.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/engine/ticks.hpp"

namespace pail::engine {

inline constexpr std::int64_t kMostCounted = (std::int64_t{1} << 32) - 1;
inline constexpr std::int64_t kLeastCounted = -kMostCounted;

struct Counter {
  bool exists = false;
  bool has_expiry = false;  // that somebody has set
  std::int64_t value = 0;
  Ticks end = 0;
};

namespace detail {

struct CounterForm {
  unsigned mark_shift;
  std::int64_t bias;

  [[nodiscard]] constexpr Word encode(const Counter& counter, Word form_bit) const noexcept {
    const Word mark = (counter.end + (Word{1} << mark_shift) - 1) >> mark_shift;
    return mark << mark_shift | static_cast<Word>(counter.value + bias) << 2 |
           (counter.has_expiry ? 2U : 0U) | form_bit;
  }
  [[nodiscard]] constexpr Counter decode(Word word) const noexcept {
    const Word stored = (word & ((Word{1} << mark_shift) - 1)) >> 2;
    return {stored != 0, (word & 2) != 0, static_cast<std::int64_t>(stored) - bias,
            word >> mark_shift << mark_shift};
  }
};
inline constexpr CounterForm kFine{24, std::int64_t{1} << 21};
inline constexpr CounterForm kCoarse{35, std::int64_t{1} << 32};

}  // namespace detail

// How much later than asked a counter may end.
inline constexpr Ticks kCounterFineTicks = Ticks{1} << detail::kFine.mark_shift;
inline constexpr Ticks kCounterCoarseTicks = Ticks{1} << detail::kCoarse.mark_shift;

// Of a counter that exists; its value is between kLeastCounted and kMostCounted.
[[nodiscard]] constexpr Word counter_word(const Counter& counter) noexcept {
  const std::int64_t bias = detail::kFine.bias;
  const bool is_small = counter.value > -bias && counter.value < bias;
  return is_small ? detail::kFine.encode(counter, 0) : detail::kCoarse.encode(counter, 1);
}

[[nodiscard]] constexpr Counter counter_in(Word word, Ticks now) noexcept {
  const Counter counter =
      (word & 1) == 0 ? detail::kFine.decode(word) : detail::kCoarse.decode(word);
  return counter.exists && counter.end > now ? counter : Counter{};
}

// The word of a counter that is deleted at `now`: idle at once, or within a millisecond of the
// server's first. Not 0: the table never lets a word go back to unwritten.
[[nodiscard]] constexpr Word deleted_counter(Ticks now) noexcept {
  return std::max(now >> detail::kFine.mark_shift, Ticks{1}) << detail::kFine.mark_shift;
}

}  // namespace pail::engine
