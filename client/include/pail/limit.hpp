// Which limit a call is measured against: a named policy of the server, or a rate given in the
// call.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <pail/error.hpp>

namespace pail {

// A value, made once and used for many calls; reading it from many threads is safe.
//
//   const auto api = pail::Limit::policy("api");
//   const auto burst = pail::Limit::rate(10, std::chrono::seconds(1), 20);   // 10/s, 20 at once
//
// Two different inline rates on one key share (and disturb) one budget: give each its own key, for
// example "partner-a/per-second" and "partner-a/per-day".
class Limit {
 public:
  // The policy of this name at the server. No round trip: whether it exists is known by the first
  // call (ErrorCode::unknown_policy).
  [[nodiscard]] static Limit policy(std::string_view name);

  // The same policy with the numbers that it has at the server. They are not sent: they are for
  // OnFailure::local only.
  [[nodiscard]] Limit with_numbers(std::uint32_t count, std::chrono::nanoseconds period,
                                   std::uint32_t burst) const;

  // A token bucket: `count` tokens every `period`, at most `burst` at once. Valid are count and
  // burst of at least 1, a period from 1 ns to 366 days, and burst x period / count of at most
  // 2^61/16 ns (4.5 years); the first call answers ErrorCode::bad_argument or the server's own
  // words if not.
  [[nodiscard]] static Limit rate(std::uint32_t count, std::chrono::nanoseconds period,
                                  std::uint32_t burst);

  // The same as people write it: "10/s", "100/min", "5000/1h", and the burst.
  [[nodiscard]] static Result<Limit> parse(std::string_view rate, std::uint32_t burst);

  [[nodiscard]] bool is_policy() const noexcept { return policy_id_ != 0; }
  [[nodiscard]] const std::string& policy_name() const noexcept { return policy_name_; }
  [[nodiscard]] std::uint32_t policy_id() const noexcept {
    return policy_id_;
  }  // 0: an inline rate
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::chrono::nanoseconds period() const noexcept { return period_; }
  [[nodiscard]] std::uint32_t burst() const noexcept { return burst_; }

 private:
  Limit() = default;

  std::string policy_name_;
  std::uint32_t policy_id_ = 0;
  std::uint32_t count_ = 0;
  std::chrono::nanoseconds period_{0};
  std::uint32_t burst_ = 0;
};

}  // namespace pail
