// The leaky bucket as a queue: a token bucket that may lend the future. An ask that finds too
// little is admitted all the same if its turn comes within max_wait, and is told how long to hold.
//
//   admit iff  base + c T - now <= tau - reserve T + max_wait
//   hold       max(0, base + c T - now - tau)
//
// The bound of the token bucket holds at the moments of release that it hands out. Otherwise all is
// as in token_bucket.hpp, and as there nothing can overflow: tau + max_wait <= 2^61.
#pragma once

#include "server/engine/token_bucket.hpp"

namespace pail::engine {

struct LeakyBucket {
  TokenBucket bucket;
  Ticks max_wait = 0;
  friend bool operator==(const LeakyBucket&, const LeakyBucket&) = default;
};

// Decides an ask for which never_fits(limit.bucket, ask) is false. A partial ask that finds tokens
// takes them at once; one that finds none queues for one.
[[nodiscard]] constexpr Step take(const LeakyBucket& limit, Word word, Ticks now,
                                  const Ask& ask) noexcept {
  const TokenBucket& bucket = limit.bucket;
  const Word base = std::max(word, now);
  if (ask.cost == 0) return {Verdict::admitted, 0, base};
  std::uint32_t cost = ask.cost;
  if (ask.partial) {
    cost = std::clamp<std::uint32_t>(remaining(bucket, word, now, ask.priority), 1, cost);
  }
  const Word next = base + cost * bucket.per_token;
  const Ticks debt = next - now;
  if (debt <= detail::allowance(bucket, ask.priority) + limit.max_wait) {
    return {Verdict::admitted, cost, next};
  }
  return {debt <= bucket.tolerance + limit.max_wait ? Verdict::shed : Verdict::denied, 0, 0};
}

// For the word after an admission: how long to hold the request.
[[nodiscard]] constexpr Ticks hold(const LeakyBucket& limit, Word next, Ticks now) noexcept {
  const Ticks debt = reset_after(next, now);
  return debt > limit.bucket.tolerance ? debt - limit.bucket.tolerance : 0;
}

// After a refusal: until the ask would be admitted, to the queue at least.
[[nodiscard]] constexpr Ticks retry_after(const LeakyBucket& limit, Word word, Ticks now,
                                          const Ask& ask) noexcept {
  const Ticks dry = retry_after(limit.bucket, word, now, ask);
  return dry > limit.max_wait ? dry - limit.max_wait : 0;
}

}  // namespace pail::engine
