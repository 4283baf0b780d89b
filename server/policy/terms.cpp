#include "server/policy/terms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ctime>

#include "protocol/limit_text.hpp"

namespace pail::policy {
namespace {

using engine::Algorithm;
using engine::WindowRule;

constexpr std::uint64_t kSecondNs = 1'000'000'000;

struct AlgorithmName {
  std::string_view name;
  std::string_view short_name;
  Algorithm algorithm;
};
constexpr std::array<AlgorithmName, 5> kAlgorithmNames{{
    {"token_bucket", "bucket", Algorithm::token_bucket},
    {"leaky_bucket", "leaky", Algorithm::leaky_bucket},
    {"fixed_window", "fixed", Algorithm::fixed_window},
    {"sliding_window", "sliding", Algorithm::sliding_window},
    {"concurrency", "concurrency", Algorithm::concurrency},
}};

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/:").find(c) != std::string_view::npos;
}

}  // namespace

Parsed<Algorithm> parse_algorithm(std::string_view text) {
  for (const AlgorithmName& known : kAlgorithmNames) {
    if (text == known.name || text == known.short_name) return known.algorithm;
  }
  return tl::unexpected(fmt::format(
      "\"{}\" is no kind of limit: bucket, leaky, fixed, sliding or concurrency", text));
}

std::string_view name(Algorithm algorithm) noexcept {
  for (const AlgorithmName& known : kAlgorithmNames) {
    if (algorithm == known.algorithm) return known.name;
  }
  return "unknown";
}

Parsed<engine::Enforcement> parse_mode(std::string_view text) {
  using engine::Enforcement;
  for (const Enforcement mode : {Enforcement::enforce, Enforcement::shadow, Enforcement::off}) {
    if (text == name(mode)) return mode;
  }
  return tl::unexpected(fmt::format("\"{}\" is no mode: enforce, shadow or off", text));
}

std::string_view name(engine::Enforcement mode) noexcept {
  switch (mode) {
    case engine::Enforcement::enforce:
      return "enforce";
    case engine::Enforcement::shadow:
      return "shadow";
    case engine::Enforcement::off:
      return "off";
  }
  return "unknown";
}

std::string format_time(std::int64_t utc_s) {
  const auto time = static_cast<std::time_t>(utc_s);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

Parsed<std::uint32_t> parse_seconds(std::string_view what, std::string_view text) {
  const auto ns = protocol::parse_duration_ns(text);
  if (!ns) return tl::unexpected(fmt::format("{}: {}", what, ns.error()));
  if (*ns % kSecondNs != 0 || *ns / kSecondNs > engine::kMaxWindowSeconds) {
    return tl::unexpected(
        fmt::format("{} \"{}\" is not 1 s to 366 days in whole seconds", what, text));
  }
  return static_cast<std::uint32_t>(*ns / kSecondNs);
}

Parsed<WindowRule> parse_window(std::string_view text) {
  if (text == "week") return WindowRule::week();
  if (text == "month") return WindowRule::month();
  const bool has_number = !text.empty() && text[0] >= '0' && text[0] <= '9';
  const auto seconds =
      parse_seconds("window", has_number ? std::string(text) : "1" + std::string(text));
  if (!seconds) return tl::unexpected(seconds.error() + "; a week and a month are windows too");
  return WindowRule::every(*seconds);
}

std::string format_window(const WindowRule& rule) {
  if (rule.seconds == 0) return "month";
  if (rule == WindowRule::week()) return "week";
  return protocol::format_duration_ns(rule.seconds * kSecondNs);
}

Parsed<engine::LeaseTerms> parse_lease(std::string_view text) {
  const auto wrong = [] {
    return tl::unexpected(
        std::string("a lease is how long, at most which part of what is left, and at least how "
                    "many tokens, as in 200ms/10%/8; the last two may be left out"));
  };
  const auto parse_number = [](std::string_view number, std::uint32_t& value) {
    const char* const end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, value);
    return error == std::errc{} && stop == end;
  };
  engine::LeaseTerms terms;
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto ns = protocol::parse_duration_ns(text.substr(0, slash));
  if (!ns) return tl::unexpected(ns.error());
  if (*ns == 0) return wrong();
  terms.ttl_ns = *ns;
  if (slash == text.size()) return terms;
  text.remove_prefix(slash + 1);
  const std::size_t percent = text.find('%');
  if (percent == std::string_view::npos) return wrong();
  if (!parse_number(text.substr(0, percent), terms.share_percent)) return wrong();
  text.remove_prefix(percent + 1);
  if (text.empty()) return terms;
  if (text.front() != '/' || !parse_number(text.substr(1), terms.least)) return wrong();
  return terms;
}

std::string format_lease(const engine::LeaseTerms& terms) {
  return fmt::format("{}/{}%/{}", protocol::format_duration_ns(terms.ttl_ns), terms.share_percent,
                     terms.least);
}

std::string fault_in_name(std::string_view text) {
  const bool is_fine = !text.empty() && text.size() <= protocol::kMaxPolicyNameBytes &&
                       std::all_of(text.begin(), text.end(), is_name_character);
  return is_fine ? "" : "a name is 1 to 64 of A-Z a-z 0-9 . _ - / :";
}

Parsed<Unknown> parse_unknown(std::string_view text) {
  using Rule = engine::UnknownPolicy::Rule;
  constexpr std::string_view kDefault = "default:";
  if (text == "refuse") return Unknown{};
  if (text == "admit") return Unknown{Rule::admit};
  if (!text.starts_with(kDefault)) {
    return tl::unexpected(
        fmt::format("\"{}\" is none of \"refuse\", \"admit\", \"default:NAME\"", text));
  }
  const std::string_view name = text.substr(kDefault.size());
  if (std::string fault = fault_in_name(name); !fault.empty()) {
    return tl::unexpected("the name behind default: " + fault);
  }
  return Unknown{Rule::by_default, std::string(name)};
}

std::string format_unknown(const Unknown& unknown) {
  switch (unknown.rule) {
    case engine::UnknownPolicy::Rule::refuse:
      return "refuse";
    case engine::UnknownPolicy::Rule::admit:
      return "admit";
    case engine::UnknownPolicy::Rule::by_default:
      return "default:" + unknown.name;
  }
  return {};
}

engine::UnknownPolicy to_engine(const Unknown& unknown) {
  return {unknown.rule, unknown.name.empty() ? 0 : protocol::policy_id(unknown.name)};
}

}  // namespace pail::policy
