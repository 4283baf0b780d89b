// The token bucket as arithmetic: pure functions over (limit, word, now). No table, no clock, no
// memory.
//
// This is GCRA, the generic cell rate algorithm of ITU-T I.371, on integers. A policy of `count`
// tokens per period with burst B becomes
//
//     T   = ceil(16 x period_ns / count)   ticks a token
//     tau = B x T                          ticks of debt that a full bucket can take on
//
// and the word is the theoretical arrival time (TAT): the moment at which the bucket is full again.
// A take of c tokens moves it from `base = max(word, now)` to `base + c T`, provided that this is
// at most `now + tau`; a refusal writes nothing. Rounding T up never admits too much and costs at
// most rate / 16e9 of the rate.
//
// Nothing here can overflow: tau <= 2^61 (checked once, in rate.hpp), now < 2^63 - 2^61, so every
// word is below 2^63 and every sum below 2^64.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>

#include "server/engine/request.hpp"
#include "server/engine/ticks.hpp"

namespace pail::engine {

// A limit in the form that decisions use. Made by make_token_bucket(), which checks it.
struct TokenBucket {
  Ticks per_token = 1;  // T, at least 1
  Ticks tolerance = 0;  // tau, at most kMaxHorizon
  std::uint64_t reciprocal =
      0;                    // floor((2^64 - 1) / T): division is the dearest part of a decision
  std::uint32_t burst = 0;  // B
  std::array<std::uint32_t, kPriorities>
      reserve{};  // tokens that a priority leaves for the higher ones
  friend bool operator==(const TokenBucket&, const TokenBucket&) = default;
};

// What one request wants of a bucket.
struct Ask {
  std::uint32_t cost = 1;
  std::uint8_t priority = 0;
  bool partial = false;
};

// One decision. `next` is the word after it where it was admitted, and 0 (never a word that is
// written) where it was refused.
struct Step {
  Verdict verdict = Verdict::admitted;
  std::uint32_t granted = 0;
  Word next = 0;
};

namespace detail {

__extension__ using Wide = unsigned __int128;

// floor(ticks / T) for ticks <= 2^61. The estimate is at most one too small: it loses less than
// ticks / 2^64 + 1 <= 1 + 1/8.
[[nodiscard]] constexpr std::uint64_t whole_tokens(const TokenBucket& limit, Ticks ticks) noexcept {
  assert(ticks <= kMaxHorizon);
  const auto estimate = static_cast<std::uint64_t>((Wide{ticks} * limit.reciprocal) >> 64);
  return estimate + (ticks - estimate * limit.per_token >= limit.per_token ? 1 : 0);
}

// How much debt a priority may run up: tau less its reserve.
[[nodiscard]] constexpr Ticks allowance(const TokenBucket& limit, std::uint8_t priority) noexcept {
  return limit.tolerance - limit.reserve[priority] * limit.per_token;
}

}  // namespace detail

// Until the bucket is full again, for a word after the decision.
[[nodiscard]] constexpr Ticks reset_after(Word word, Ticks now) noexcept {
  return word > now ? word - now : 0;
}

// Tokens that this priority could take at `now`.
[[nodiscard]] constexpr std::uint32_t remaining(const TokenBucket& limit, Word word, Ticks now,
                                                std::uint8_t priority) noexcept {
  const Ticks debt = reset_after(word, now);
  const Ticks allowed = detail::allowance(limit, priority);
  if (debt >= allowed) return 0;
  return static_cast<std::uint32_t>(detail::whole_tokens(limit, allowed - debt));
}

// Whether the ask exceeds what a full bucket could give, so that waiting is of no use.
[[nodiscard]] constexpr bool never_fits(const TokenBucket& limit, const Ask& ask) noexcept {
  const std::uint32_t least = ask.partial ? std::min<std::uint32_t>(ask.cost, 1) : ask.cost;
  return least > limit.burst - limit.reserve[ask.priority];
}

// Decides an ask for which never_fits() is false. Cost 0 is always admitted and takes nothing.
[[nodiscard]] constexpr Step take(const TokenBucket& limit, Word word, Ticks now,
                                  const Ask& ask) noexcept {
  const Word base = std::max(word, now);
  if (ask.cost == 0) return {Verdict::admitted, 0, base};
  std::uint32_t cost = ask.cost;
  if (ask.partial) {
    cost = std::clamp<std::uint32_t>(remaining(limit, word, now, ask.priority), 1, cost);
  }
  const Word next = base + cost * limit.per_token;
  const Ticks debt = next - now;
  if (debt <= detail::allowance(limit, ask.priority)) return {Verdict::admitted, cost, next};
  return {debt <= limit.tolerance ? Verdict::shed : Verdict::denied, 0, 0};
}

// After a refusal: how long until the ask would be admitted, if nobody else takes meanwhile. A
// partial ask waits for its first token.
[[nodiscard]] constexpr Ticks retry_after(const TokenBucket& limit, Word word, Ticks now,
                                          const Ask& ask) noexcept {
  const std::uint32_t cost = ask.partial ? 1 : ask.cost;
  const Ticks debt = std::max(word, now) + cost * limit.per_token - now;
  const Ticks allowed = detail::allowance(limit, ask.priority);
  return debt > allowed ? debt - allowed : 0;
}

// The word after RESET, or 0 to leave it alone. Not 0 for "fresh": the table never lets a word go
// back to unwritten.
[[nodiscard]] constexpr Word reset(Word word, Ticks now) noexcept {
  return word > now ? now : 0;
}

// The stale-word rule. A word further ahead than any limit of this key can have written was left by
// an older version of them (a drained 1/min bucket raised to 60/min would else refuse for an hour):
// then the lowered word, else 0. `longest` is how far ahead they can write: `tolerance` and more
// where there is debt, a queue, or a tier with larger numbers. `slack` is how old another thread's
// clock reading can be.
//
// Only for named policies, with a fresh reading of the clock, and once no thread can still decide
// by the old version. With inline limits two parameter sets in turn on one key would mint tokens.
[[nodiscard]] constexpr Word lowered_stale_word(const TokenBucket& limit, Ticks longest, Word word,
                                                Ticks now, Ticks slack) noexcept {
  assert(longest >= limit.tolerance);
  const Ticks ceiling = now + longest;
  return word > ceiling && word - ceiling > slack ? now + limit.tolerance : 0;
}

}  // namespace pail::engine
