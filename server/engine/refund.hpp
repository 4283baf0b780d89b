// Giving back to a bucket, and overdrawing it: what SETTLE and a lost race of layers need.
//
// Tokens that were taken `elapsed` ago have been refilled in part by now, used or not. So only the
// rest comes back: a refund decays at the refill rate, and ten refunds of one token each decay ten
// times. The word must be loaded BEFORE the clock is read: with an old reading a refund would give
// back what time has given back already.
#pragma once

#include "server/engine/token_bucket.hpp"

namespace pail::engine {

// The word after giving back `tokens` taken `elapsed` ago, or 0 to leave it alone. Nothing comes
// back while the word is further ahead than tau: waiters hold reservations behind these tokens.
[[nodiscard]] constexpr Word refunded(const TokenBucket& limit, Word word, Ticks now,
                                      std::uint32_t tokens, Ticks elapsed) noexcept {
  assert(tokens <= limit.burst);
  if (word <= now || word - now > limit.tolerance) return 0;
  const Ticks charged = tokens * limit.per_token;
  if (charged <= elapsed) return 0;
  return std::max(now, word - std::min(word, charged - elapsed));
}

// For the answer: how many tokens a refund from `higher` to `lower` gave back. What the bucket has
// refilled of them meanwhile is told in whole tokens, so a part of one that came back counts as
// one: of 3 tokens a day, settled to 1 an instant later, 2 come back, and not 1.99.
[[nodiscard]] constexpr std::uint32_t tokens_given_back(const TokenBucket& limit, Word higher,
                                                        Word lower) noexcept {
  const Ticks ticks = higher - lower;
  const std::uint64_t whole = detail::whole_tokens(limit, ticks);
  return static_cast<std::uint32_t>(whole + (whole * limit.per_token < ticks ? 1 : 0));
}

// The same limit for a settlement upwards: up to max_debt tokens below empty, and no reserve. What
// it admits of a partial ask is what may be charged. burst + max_debt < 2^32, and its horizon is
// checked with the policy.
[[nodiscard]] constexpr TokenBucket overdrawable(TokenBucket limit,
                                                 std::uint32_t max_debt) noexcept {
  limit.tolerance += max_debt * limit.per_token;
  limit.burst += max_debt;
  limit.reserve = {};
  return limit;
}

}  // namespace pail::engine
