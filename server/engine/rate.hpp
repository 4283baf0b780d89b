// From a rate as people say it to a limit as decisions use it: the one place that checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "server/engine/request.hpp"
#include "server/engine/token_bucket.hpp"

namespace pail::engine {

inline constexpr std::uint64_t kMaxPeriodNs = std::uint64_t{366} * 24 * 3600 * 1'000'000'000;

enum class RateFault : std::uint8_t {
  period_zero,
  period_too_long,
  count_zero,
  burst_zero,
  horizon
};

// What is wrong, in static text without the numbers: for the request path.
[[nodiscard]] std::string_view text(RateFault fault) noexcept;

// Checks in 128 bits that no decision under this rate can overflow, then converts.
[[nodiscard]] constexpr tl::expected<TokenBucket, RateFault> make_token_bucket(
    const Rate& rate) noexcept {
  if (rate.period_ns == 0) return tl::unexpected(RateFault::period_zero);
  if (rate.period_ns > kMaxPeriodNs) return tl::unexpected(RateFault::period_too_long);
  if (rate.count == 0) return tl::unexpected(RateFault::count_zero);
  if (rate.burst == 0) return tl::unexpected(RateFault::burst_zero);
  static_assert(kMaxPeriodNs <= ~std::uint64_t{0} / kTicksPerNs);
  const Ticks period = rate.period_ns * kTicksPerNs;
  const Ticks per_token = period / rate.count + (period % rate.count != 0 ? 1 : 0);
  const detail::Wide tolerance = detail::Wide{per_token} * rate.burst;
  if (tolerance > kMaxHorizon) return tl::unexpected(RateFault::horizon);
  TokenBucket limit;
  limit.per_token = per_token;
  limit.tolerance = static_cast<Ticks>(tolerance);
  limit.reciprocal = ~std::uint64_t{0} / per_token;
  limit.burst = rate.burst;
  return limit;
}

// Empty if the rate can be used; else what is wrong and what would be right.
[[nodiscard]] std::string check_rate(const Rate& rate);

// For a usable rate: empty, or a warning that rounding to whole ticks makes it more than 0.1%
// slower than it says.
[[nodiscard]] std::string warn_rate(const Rate& rate);

}  // namespace pail::engine
