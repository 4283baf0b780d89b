// The words that policies are written in, in flags and files: kinds of limits, windows, names.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "server/engine/policy_spec.hpp"

namespace pail::policy {

template <class T>
using Parsed =
    tl::expected<T, std::string>;  // the error says what is wrong and what would be right

// "token_bucket", or for short "bucket".
[[nodiscard]] Parsed<engine::Algorithm> parse_algorithm(std::string_view text);
[[nodiscard]] std::string_view name(engine::Algorithm algorithm) noexcept;

// "enforce", "shadow", "off".
[[nodiscard]] Parsed<engine::Enforcement> parse_mode(std::string_view text);
[[nodiscard]] std::string_view name(engine::Enforcement mode) noexcept;

// UTC as "2026-12-24T18:00:00Z".
[[nodiscard]] std::string format_time(std::int64_t utc_s);

// 1 s to 366 days in whole seconds; `what` names it in the error.
[[nodiscard]] Parsed<std::uint32_t> parse_seconds(std::string_view what, std::string_view text);

// "min", "90s", "30d", "week", "month".
[[nodiscard]] Parsed<engine::WindowRule> parse_window(std::string_view text);
// As it is parsed, the anchor of a month aside.
[[nodiscard]] std::string format_window(const engine::WindowRule& rule);

// How a policy is leased: "200ms/10%/8" is how long, at most which part of what is left, at least
// how many tokens; "200ms" and "200ms/10%" leave the rest as it is by default.
[[nodiscard]] Parsed<engine::LeaseTerms> parse_lease(std::string_view text);
[[nodiscard]] std::string format_lease(const engine::LeaseTerms& terms);

// What becomes of a request for a policy that there is not: "refuse", "admit", "default:NAME".
struct Unknown {
  engine::UnknownPolicy::Rule rule = engine::UnknownPolicy::Rule::refuse;
  std::string name = {};  // of the default
};
[[nodiscard]] Parsed<Unknown> parse_unknown(std::string_view text);
[[nodiscard]] std::string format_unknown(const Unknown& unknown);
[[nodiscard]] engine::UnknownPolicy to_engine(const Unknown& unknown);

// Empty, or what a policy's name must be.
[[nodiscard]] std::string fault_in_name(std::string_view text);

[[nodiscard]] constexpr bool is_bucket(engine::Algorithm algorithm) noexcept {
  return algorithm == engine::Algorithm::token_bucket ||
         algorithm == engine::Algorithm::leaky_bucket;
}

}  // namespace pail::policy
