#include "protocol/limit_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace pail::protocol {
namespace {

using Reason = std::string;

struct Unit {
  std::string_view name;
  std::uint64_t ns;
};
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::array<Unit, 7> kUnits{{{"d", 86'400 * kSecondNs},
                                      {"h", 3'600 * kSecondNs},
                                      {"min", 60 * kSecondNs},
                                      {"s", kSecondNs},
                                      {"ms", 1'000'000},
                                      {"us", 1'000},
                                      {"ns", 1}}};

std::string quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

// A whole number of at least 1; `what` names it in the error.
template <class Unsigned>
tl::expected<Unsigned, Reason> parse_number(std::string_view what, std::string_view text) {
  constexpr Unsigned kMost = std::numeric_limits<Unsigned>::max();
  Unsigned value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::string subject = std::string(what) + " " + quoted(text);
  if (text.starts_with('-')) return tl::unexpected(subject + " is negative: at least 1");
  if (error == std::errc::result_out_of_range) {
    return tl::unexpected(subject + " is too large: at most " + std::to_string(kMost));
  }
  if (error != std::errc{} || stop != end) {
    return tl::unexpected(subject + " is not a whole number");
  }
  if (value == 0) return tl::unexpected(subject + " must be at least 1");
  return value;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-' || c == '/' || c == ':';
}

std::uint64_t unit_ns(std::string_view name) {
  const auto* const unit =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == name; });
  return unit == kUnits.end() ? 0 : unit->ns;
}

}  // namespace

tl::expected<std::uint64_t, std::string> parse_duration_ns(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("-0123456789"), text.size());
  const std::string_view unit = text.substr(digits);
  if (digits == 0) {
    return tl::unexpected("duration " + quoted(text) + " has no number; write 250ms or 5s");
  }
  if (unit.empty()) {
    return tl::unexpected("duration " + quoted(text) + " has no unit: ns, us, ms, s, min, h or d");
  }
  const auto number = parse_number<std::uint64_t>("duration", text.substr(0, digits));
  if (!number) return tl::unexpected(number.error());
  const std::uint64_t factor = unit_ns(unit);
  if (factor == 0) {
    return tl::unexpected("unit " + quoted(unit) + " is not one of ns, us, ms, s, min, h, d");
  }
  if (*number > std::numeric_limits<std::uint64_t>::max() / factor) {
    return tl::unexpected("duration " + quoted(text) + " is too long");
  }
  return *number * factor;
}

tl::expected<WrittenRate, std::string> parse_rate(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return tl::unexpected("rate " + quoted(text) +
                          " has no period; write 100/s, 10/min or 3/250ms");
  }
  const auto count = parse_number<std::uint32_t>("count", text.substr(0, slash));
  if (!count) return tl::unexpected("rate " + quoted(text) + ": " + count.error());

  // "s" alone is one second.
  const std::string_view period = text.substr(slash + 1);
  const std::uint64_t single_ns = unit_ns(period);
  const auto period_ns = single_ns != 0 ? tl::expected<std::uint64_t, std::string>(single_ns)
                                        : parse_duration_ns(period);
  if (period.empty() || (!period_ns && period.find_first_of("-0123456789") != 0)) {
    return tl::unexpected("rate " + quoted(text) + ": period " + quoted(period) +
                          " is not a number and one of ns, us, ms, s, min, h, d");
  }
  if (!period_ns) return tl::unexpected("rate " + quoted(text) + ": " + period_ns.error());
  if (*period_ns > kMaxPeriodNs) {
    return tl::unexpected("rate " + quoted(text) + ": the period is too long, 366d at most");
  }
  return WrittenRate{*count, *period_ns};
}

tl::expected<std::uint32_t, std::string> parse_burst(std::string_view text) {
  return parse_number<std::uint32_t>("burst", text);
}

tl::expected<WrittenPolicy, std::string> parse_policy(std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::size_t comma = text.find(',', std::min(equals, text.size()));
  const std::string subject = "policy " + quoted(text);
  if (equals == std::string_view::npos || comma == std::string_view::npos) {
    return tl::unexpected(subject + " is not name=rate,burst, as in partner=10/s,20");
  }
  const std::string_view policy_name = text.substr(0, equals);
  if (policy_name.empty() || policy_name.size() > kMaxPolicyNameBytes ||
      !std::all_of(policy_name.begin(), policy_name.end(), is_name_character)) {
    return tl::unexpected(subject + ": a name is 1 to 64 of A-Z a-z 0-9 . _ - / :");
  }
  const auto rate = parse_rate(text.substr(equals + 1, comma - equals - 1));
  if (!rate) return tl::unexpected(subject + ": " + rate.error());
  const auto burst = parse_burst(text.substr(comma + 1));
  if (!burst) return tl::unexpected(subject + ": " + burst.error());
  return WrittenPolicy{std::string(policy_name), {rate->period_ns, rate->count, *burst}};
}

std::string fault_in_whole_number(const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    return quoted(text) + " is too large: at most " +
           std::to_string(std::numeric_limits<std::uint64_t>::max());
  }
  return error == std::errc{} && stop == end ? "" : quoted(text) + " is not a whole number";
}

std::string fault_in_flag(const std::string& text) {
  return text.empty() ? "the value is empty: leave the flag out" : "";
}

std::string format_duration_ns(std::uint64_t duration_ns) {
  if (duration_ns == 0) return "0s";
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(),
                                        [&](const Unit& u) { return duration_ns % u.ns == 0; });
  return std::to_string(duration_ns / unit->ns) + std::string(unit->name);
}

std::string format_rate(const WrittenRate& rate) {
  const std::string period = format_duration_ns(rate.period_ns);
  const bool is_one = period.starts_with('1') && unit_ns(period.substr(1)) != 0;
  return std::to_string(rate.count) + "/" + (is_one ? period.substr(1) : period);
}

}  // namespace pail::protocol
