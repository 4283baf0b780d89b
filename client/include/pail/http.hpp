// A decision in HTTP's words: the status, the fields that tell a caller of its budget, in the forms
// that are in use, and a body.
//
//   for (const auto& field : pail::http::rate_limit_fields(decision, {"api", 100, 60s}))
//     response.set_header(field.name, field.value);
//
// Times are whole seconds, rounded up: never too early, and at least 1 for what is not yet. Pure
// functions of values, for any thread. Fields of a decision that no server made
// (Decision::is_fallback(), but for `local`) would be inventions: all but Retry-After are left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pail/decision.hpp>

namespace pail::http {

// 200 for an admitted request; 429 (RFC 6585) for one that is refused for its limit; 503 for one
// that is refused because nobody could decide (OnFailure::closed): that is our fault, not the
// caller's.
[[nodiscard]] int status(const Decision& decision) noexcept;

// Retry-After (RFC 9110, 10.2.3) of a refused request in whole seconds: rounded up, so that it is
// never too early, and at least 1. None for an admitted one, and for one that can never be
// admitted.
[[nodiscard]] std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept;

struct Field {
  std::string name;
  std::string value;
};

// The policy as callers are told of it.
struct QuotaPolicy {
  std::string_view name = "default";  // what is not printable ASCII becomes '?'
  std::uint64_t quota = 0;            // tokens a window; 0: the decision's limit
  std::chrono::seconds window{0};     // 0: not told
};

enum class Style : std::uint8_t {
  // draft-ietf-httpapi-ratelimit-headers-11, in structured fields (RFC 9651):
  //   RateLimit-Policy: "api";q=100;w=60      RateLimit: "api";r=50;t=30
  draft_11,
  // draft 07: one field          RateLimit: limit=100, remaining=50, reset=30
  //                              RateLimit-Policy: 100;w=60
  draft_07,
  // draft 06: four fields        RateLimit-Limit: 100, RateLimit-Remaining, -Reset, -Policy:
  // 100;w=60
  draft_06,
  // nobody's standard            X-RateLimit-Limit, -Remaining, -Reset: 30 (seconds from now)
  x_delta,
  // the same, -Reset in seconds since 1970-01-01T00:00:00Z, as GitHub has it
  x_epoch,
};

// The fields of one policy, Retry-After included where the request is refused. `reset` is when all
// of the quota is there again. `now` is for Style::x_epoch only.
[[nodiscard]] std::vector<Field> rate_limit_fields(
    const Decision& decision, const QuotaPolicy& policy, Style style = Style::draft_11,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

inline constexpr std::string_view kProblemType = "application/problem+json";

// The body of a refused request (RFC 9457), of the draft's problem types: quota-exceeded for 429,
// temporary-reduced-capacity for 503. `violated` are the names of the policies that refused; what
// of a name is not UTF-8 becomes U+FFFD. `detail` is for people, and may be empty.
[[nodiscard]] std::string problem_json(const Decision& decision,
                                       std::span<const std::string_view> violated,
                                       std::string_view detail = {});

}  // namespace pail::http
