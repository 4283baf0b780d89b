#include "server/policy/policy_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "protocol/limit_text.hpp"
#include "server/policy/terms.hpp"

namespace pail::policy {
namespace {

using engine::Algorithm;
using engine::PolicySpec;
using engine::WindowRule;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Parsed<std::uint32_t> parse_count(std::string_view what, std::string_view text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) {
    return tl::unexpected(
        fmt::format("{} \"{}\" is not a whole number up to 4294967295", what, text));
  }
  return value;
}

// What stands before the first option.
Parsed<void> parse_main_part(std::span<const std::string_view> fields, PolicySpec& spec) {
  if (is_bucket(spec.algorithm)) {
    if (fields.size() != 2)
      return tl::unexpected(std::string("it is not name=rate,burst, as in partner=10/s,20"));
    const auto rate = protocol::parse_rate(fields[0]);
    if (!rate) return tl::unexpected(rate.error());
    const auto burst = protocol::parse_burst(fields[1]);
    if (!burst) return tl::unexpected(burst.error());
    spec.rate = {rate->period_ns, rate->count, *burst};
    return {};
  }
  if (fields.size() != 1) return tl::unexpected(std::string("a window and permits have no burst"));
  const std::size_t slash = fields[0].find('/');
  const auto limit = parse_count("limit", fields[0].substr(0, slash));
  if (!limit) return tl::unexpected(limit.error());
  spec.limit = *limit;
  if (spec.algorithm == Algorithm::concurrency) {
    if (slash == std::string_view::npos) return {};
    return tl::unexpected(
        std::string("permits are a number at once, as in render=concurrency:10,ttl=30s"));
  }
  if (slash == std::string_view::npos) {
    return tl::unexpected(std::string("the window is missing, as in api=fixed:1000/min"));
  }
  const auto window = parse_window(fields[0].substr(slash + 1));
  if (!window) return tl::unexpected(window.error());
  spec.window = *window;
  return {};
}

Parsed<void> parse_reserve(std::string_view text, PolicySpec& spec) {
  const auto parts = split(text, '/');
  if (parts.size() > spec.reserve.size())
    return tl::unexpected(std::string("reserve: one for each priority, 4 at most"));
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto tokens = parse_count("reserve", parts[p]);
    if (!tokens) return tl::unexpected(tokens.error());
    spec.reserve[p] = *tokens;
  }
  return {};
}

Parsed<void> parse_option(std::string_view name, std::string_view value, PolicySpec& spec) {
  if (name == "reserve") return parse_reserve(value, spec);
  if (name == "max_debt") {
    const auto tokens = parse_count(name, value);
    if (!tokens) return tl::unexpected(tokens.error());
    spec.max_debt = *tokens;
    return {};
  }
  if (name == "lease") {
    const auto terms = parse_lease(value);
    if (!terms) return tl::unexpected(terms.error());
    spec.lease = *terms;
    return {};
  }
  if (name == "max_wait") {
    const auto ns = protocol::parse_duration_ns(value);
    if (!ns) return tl::unexpected(ns.error());
    spec.max_wait_ns = *ns;
    return {};
  }
  if (name == "ttl" && spec.algorithm == Algorithm::concurrency) {
    const auto seconds = parse_seconds(name, value);
    if (!seconds) return tl::unexpected(seconds.error());
    spec.window = WindowRule::every(*seconds);
    return {};
  }
  if (name == "anchor" && spec.window.seconds == 0) {
    const auto day = parse_count(name, value);
    if (!day) return tl::unexpected(day.error());
    if (*day < 1 || *day > 31) return tl::unexpected(std::string("anchor: a day from 1 to 31"));
    spec.window = WindowRule::month(static_cast<std::uint8_t>(*day));
    return {};
  }
  return tl::unexpected(
      fmt::format("option \"{}\" is none of this policy: reserve, max_debt, lease, max_wait (of "
                  "leaky), ttl (of "
                  "concurrency), anchor (of a month)",
                  name));
}

Parsed<void> parse_body(std::string_view body, PolicySpec& spec) {
  const std::size_t colon = body.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view name = body.substr(0, colon);
    const auto algorithm = parse_algorithm(name);
    if (!algorithm) return tl::unexpected(algorithm.error());
    spec.algorithm = *algorithm;
    body.remove_prefix(colon + 1);
  }
  const auto fields = split(body, ',');
  const auto first_option = std::find_if(fields.begin(), fields.end(), [](std::string_view field) {
    return field.find('=') != std::string_view::npos;
  });
  if (auto fine = parse_main_part({fields.begin(), first_option}, spec); !fine) return fine;
  bool has_ttl = spec.algorithm != Algorithm::concurrency;
  for (auto option = first_option; option != fields.end(); ++option) {
    const std::size_t equals = std::min(option->find('='), option->size());
    const std::string_view name = option->substr(0, equals);
    const std::string_view value = equals < option->size() ? option->substr(equals + 1) : "";
    if (std::any_of(first_option, option, [&](std::string_view other) {
          return other.substr(0, other.find('=')) == name;
        })) {
      return tl::unexpected(fmt::format("option \"{}\" is given twice", name));
    }
    if (auto fine = parse_option(name, value, spec); !fine) return fine;
    has_ttl = has_ttl || name == "ttl";
  }
  if (!has_ttl)
    return tl::unexpected(std::string("permits need a ttl, as in render=concurrency:10,ttl=30s"));
  return {};
}

}  // namespace

tl::expected<engine::PolicySpec, std::string> parse_policy_text(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return tl::unexpected(std::string("it is not name=rate,burst, as in partner=10/s,20"));
  }
  PolicySpec spec;
  spec.name = text.substr(0, equals);
  if (std::string fault = fault_in_name(spec.name); !fault.empty()) {
    return tl::unexpected(std::move(fault));
  }
  spec.id = protocol::policy_id(spec.name);
  if (auto fine = parse_body(text.substr(equals + 1), spec); !fine) {
    return tl::unexpected(fine.error());
  }
  if (std::string fault = engine::check_policy(spec); !fault.empty()) {
    return tl::unexpected(std::move(fault));
  }
  return spec;
}

}  // namespace pail::policy
