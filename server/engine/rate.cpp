#include "server/engine/rate.hpp"

#include <fmt/format.h>

namespace pail::engine {
namespace {

constexpr double kTicksPerYear = 365.25 * 24 * 3600 * 1e9 * static_cast<double>(kTicksPerNs);

// The largest burst that the rate can have.
std::uint64_t max_burst(const Rate& rate) {
  const Rate smallest{rate.period_ns, rate.count, 1};
  return kMaxHorizon / make_token_bucket(smallest)->per_token;
}

std::string describe_horizon(const Rate& rate) {
  const double years = static_cast<double>(rate.period_ns) * static_cast<double>(kTicksPerNs) /
                       rate.count * rate.burst / kTicksPerYear;
  return fmt::format(
      "burst x period / count is too long: a bucket of {} would take {:.1f} years to refill, and "
      "4.5 years "
      "are the most; at this rate the burst can be up to {}",
      rate.burst, years, max_burst(rate));
}

}  // namespace

std::string_view text(RateFault fault) noexcept {
  switch (fault) {
    case RateFault::period_zero:
      return "the period is 0: it must be 1 ns to 366 days";
    case RateFault::period_too_long:
      return "the period is too long: 366 days at most";
    case RateFault::count_zero:
      return "the count is 0: a rate needs at least 1 token per period";
    case RateFault::burst_zero:
      return "the burst is 0: it must be at least 1, or nothing is ever admitted";
    case RateFault::horizon:
      return "burst x period / count is too long: 4.5 years at most";
  }
  return "unknown fault";
}

std::string check_rate(const Rate& rate) {
  const auto limit = make_token_bucket(rate);
  if (limit) return {};
  switch (limit.error()) {
    case RateFault::period_too_long:
      return fmt::format("the period is too long: {:.1f} days, and 366 are the most",
                         static_cast<double>(rate.period_ns) / (24 * 3600 * 1e9));
    case RateFault::horizon:
      return describe_horizon(rate);
    case RateFault::period_zero:
    case RateFault::count_zero:
    case RateFault::burst_zero:
      break;
  }
  return std::string(text(limit.error()));
}

std::string warn_rate(const Rate& rate) {
  const auto limit = make_token_bucket(rate);
  if (!limit) return {};
  // T x count / (16 x period) - 1 > 1/1000, in integers.
  const detail::Wide asked = detail::Wide{rate.period_ns} * kTicksPerNs;
  const detail::Wide given = detail::Wide{limit->per_token} * rate.count;
  if ((given - asked) * 1000 <= asked) return {};
  const double ticks = static_cast<double>(limit->per_token);
  return fmt::format(
      "the rate is kept in steps of 1/16 ns a token, rounded against the caller: {} per {} ns "
      "becomes "
      "{:.0f} a second, {:.2f}% less than asked",
      rate.count, rate.period_ns, 16e9 / ticks,
      100.0 * (1.0 - static_cast<double>(asked) / static_cast<double>(given)));
}

}  // namespace pail::engine
