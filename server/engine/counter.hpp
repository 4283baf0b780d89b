// Counters with an end, as limiters keep them in Redis: what they can be asked, and the one step
// that any of it is, as a pure function over (word, now).
//
// These are counters, not limits: they admit nothing by themselves. Their keys are apart from those
// of all limits. A counter whose end nobody has set has one by default, so that memory stays
// bounded. What lowers a word here does so by name: a negative amount, `set`, `remove`, an earlier
// `expire`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/engine/counter_word.hpp"
#include "server/engine/rate.hpp"

namespace pail::engine {

inline constexpr std::uint64_t kMaxCounterNs = kMaxPeriodNs;  // 366 days
inline constexpr std::uint64_t kDefaultCounterNs = std::uint64_t{24} * 3600 * 1'000'000'000;
static_assert(kMaxNow + kMaxCounterNs * kTicksPerNs + kCounterCoarseTicks < Ticks{1} << 63);

enum class CounterAction : std::uint8_t {
  look,
  add,     // `amount`, unless that goes beyond `least` or `most`
  set,     // to `amount`
  remove,  // makes it as good as new
  expire,  // sets its end: removes it where life_ns is 0
};

// When the action is done at all.
enum class CounterCondition : std::uint8_t {
  always,
  if_absent,     // set
  if_present,    // set
  if_no_expiry,  // expire, and the end that add sets
  if_expiry,     // expire
  if_later,      // expire: a counter without expiry ends never
  if_sooner,     // expire
};

struct CounterRequest {
  CounterAction action = CounterAction::look;
  CounterCondition condition = CounterCondition::always;
  std::int64_t amount = 0;
  std::int64_t least = kLeastCounted;
  std::int64_t most = kMostCounted;
  std::optional<std::uint64_t> life_ns = {};  // from now, at most kMaxCounterNs; nothing: as it is
  bool keeps_end = false;                     // set: the end stays as it is, if there is one
  std::span<const std::byte> key = {};        // as of every request
};

struct CounterAnswer {
  bool is_done = false;       // false: the condition did not hold, or the bounds did
  bool is_full = false;       // no room for a new key: nothing was done
  bool exists = false;        // afterwards; of remove: before
  bool has_expiry = false;    // likewise
  std::int64_t value = 0;     // afterwards; 0 where it does not exist
  std::uint64_t left_ns = 0;  // until its end
};

struct CounterStep {
  CounterAnswer answer;
  std::optional<Word> next;  // nothing: leave it alone
};

namespace detail {

[[nodiscard]] constexpr bool holds(CounterCondition condition, const Counter& counter,
                                   Ticks end) noexcept {
  switch (condition) {
    case CounterCondition::always:
      return true;
    case CounterCondition::if_absent:
      return !counter.exists;
    case CounterCondition::if_present:
      return counter.exists;
    case CounterCondition::if_no_expiry:
      return !counter.has_expiry;
    case CounterCondition::if_expiry:
      return counter.has_expiry;
    case CounterCondition::if_later:
      return counter.has_expiry && end > counter.end;
    case CounterCondition::if_sooner:
      return !counter.has_expiry || end < counter.end;
  }
  return false;
}

[[nodiscard]] constexpr CounterStep told(const Counter& counter, Ticks now, bool is_done) noexcept {
  CounterStep step;
  step.answer.is_done = is_done;
  step.answer.exists = counter.exists;
  step.answer.has_expiry = counter.has_expiry;
  step.answer.value = counter.value;
  step.answer.left_ns = counter.exists ? ns_rounded_up(counter.end - now) : 0;
  return step;
}

[[nodiscard]] constexpr CounterStep written(const Counter& counter, Ticks now) noexcept {
  const Word word = counter_word(counter);
  CounterStep step = told(counter_in(word, now), now, true);
  step.next = word;
  return step;
}

[[nodiscard]] constexpr CounterStep removed(const Counter& counter, Ticks now) noexcept {
  CounterStep step = told(counter, now, counter.exists);
  if (counter.exists) step.next = deleted_counter(now);
  return step;
}

[[nodiscard]] constexpr CounterStep expire(const CounterRequest& request, Counter counter,
                                           Ticks now) noexcept {
  const Ticks end = now + ticks_from_ns(request.life_ns.value_or(0));
  if (!counter.exists || !holds(request.condition, counter, end)) return told(counter, now, false);
  if (end == now) return removed(counter, now);
  counter.end = end;
  counter.has_expiry = true;
  return written(counter, now);
}

[[nodiscard]] constexpr CounterStep set(const CounterRequest& request, Counter counter, Ticks now,
                                        Ticks default_life) noexcept {
  if (!holds(request.condition, counter, 0)) return told(counter, now, false);
  const bool keeps = counter.exists && request.keeps_end;
  if (!keeps) {
    counter.has_expiry = request.life_ns.has_value();
    counter.end = now + (counter.has_expiry ? ticks_from_ns(*request.life_ns) : default_life);
  }
  counter.exists = true;
  counter.value = request.amount;
  return written(counter, now);
}

[[nodiscard]] constexpr CounterStep add(const CounterRequest& request, Counter counter, Ticks now,
                                        Ticks default_life) noexcept {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(counter.value, request.amount, &sum) || sum < request.least ||
      sum > request.most) {
    return told(counter, now, false);
  }
  if (!counter.exists) {
    counter.exists = true;
    counter.end = now + default_life;
  }
  if (request.life_ns && holds(request.condition, counter, 0)) {
    counter.has_expiry = true;
    counter.end = now + ticks_from_ns(*request.life_ns);
  }
  counter.value = sum;
  return written(counter, now);
}

}  // namespace detail

// Bounds are within those of counters, and an amount to set as well.
[[nodiscard]] constexpr CounterStep count(const CounterRequest& request, Word word, Ticks now,
                                          Ticks default_life) noexcept {
  const Counter counter = counter_in(word, now);
  switch (request.action) {
    case CounterAction::look:
      break;
    case CounterAction::add:
      return detail::add(request, counter, now, default_life);
    case CounterAction::set:
      return detail::set(request, counter, now, default_life);
    case CounterAction::remove:
      return detail::removed(counter, now);
    case CounterAction::expire:
      return detail::expire(request, counter, now);
  }
  return detail::told(counter, now, true);
}

}  // namespace pail::engine
