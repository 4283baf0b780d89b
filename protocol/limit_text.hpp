// How limits are written, in flags and files:
//
//   rate      100/s   10/min   5/h   1000/d   3/250ms   1/366d      count / period
//   duration  250ms   5s   2h                                       number and unit, nothing
//   between policy    partner=10/s,20                                       name = rate , burst
//
// Units: ns, us, ms, s, min, h, d. Whole numbers only: a rate is a count and a period, never a
// fraction, so that nothing is rounded before the arithmetic that promises how it rounds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "protocol/messages.hpp"

namespace pail::protocol {

inline constexpr std::uint64_t kMaxPeriodNs = std::uint64_t{366} * 24 * 3600 * 1'000'000'000;
inline constexpr std::size_t kMaxPolicyNameBytes = 64;

// `count` tokens every `period_ns`; 1 <= period_ns <= kMaxPeriodNs.
struct WrittenRate {
  std::uint32_t count = 0;
  std::uint64_t period_ns = 0;
  friend bool operator==(const WrittenRate&, const WrittenRate&) = default;
};

struct WrittenPolicy {
  std::string name;  // 1 to 64 of A-Z a-z 0-9 . _ - / :
  InlineLimit limit;
  friend bool operator==(const WrittenPolicy&, const WrittenPolicy&) = default;
};

// The errors say what is wrong and what would be right. Whether count, period and burst fit
// together is the engine's to say.
[[nodiscard]] tl::expected<std::uint64_t, std::string> parse_duration_ns(std::string_view text);
[[nodiscard]] tl::expected<WrittenRate, std::string> parse_rate(std::string_view text);
[[nodiscard]] tl::expected<std::uint32_t, std::string> parse_burst(std::string_view text);
[[nodiscard]] tl::expected<WrittenPolicy, std::string> parse_policy(std::string_view text);

// For the flags of programs, as checks of the text that was given: what is wrong, or empty. A
// parser of flags takes 99999999999999999999 for the largest number, and -1 likewise; and a value
// that came out empty, of a variable in a script perhaps, is no wish for the default.
[[nodiscard]] std::string fault_in_whole_number(const std::string& text);
[[nodiscard]] std::string fault_in_flag(const std::string& text);

// In the largest unit that is exact, so that parsing gives back the same value: 60 s is "1min".
[[nodiscard]] std::string format_duration_ns(std::uint64_t duration_ns);
// "100/s", "3/250ms".
[[nodiscard]] std::string format_rate(const WrittenRate& rate);

}  // namespace pail::protocol
