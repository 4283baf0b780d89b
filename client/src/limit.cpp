#include <pail/limit.hpp>

#include "protocol/limit_text.hpp"
#include "protocol/messages.hpp"

namespace pail {

Limit Limit::policy(std::string_view name) {
  Limit limit;
  limit.policy_name_ = name;
  limit.policy_id_ = protocol::policy_id(name);
  return limit;
}

Limit Limit::with_numbers(std::uint32_t count, std::chrono::nanoseconds period,
                          std::uint32_t burst) const {
  Limit limit = *this;
  limit.count_ = count;
  limit.period_ = period;
  limit.burst_ = burst;
  return limit;
}

Limit Limit::rate(std::uint32_t count, std::chrono::nanoseconds period, std::uint32_t burst) {
  Limit limit;
  limit.count_ = count;
  limit.period_ = period;
  limit.burst_ = burst;
  return limit;
}

Result<Limit> Limit::parse(std::string_view rate, std::uint32_t burst) {
  const auto written = protocol::parse_rate(rate);
  if (!written) return tl::unexpected(Error{ErrorCode::bad_argument, written.error()});
  static_assert(protocol::kMaxPeriodNs <= INT64_MAX);
  const std::chrono::nanoseconds period(static_cast<std::int64_t>(written->period_ns));
  return Limit::rate(written->count, period, burst);
}

}  // namespace pail
