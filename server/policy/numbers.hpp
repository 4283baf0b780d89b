// What is said about a limit in one place: a policy, one of its tiers, the defaults. What is left
// out is taken from the place below it.
#pragma once

#include <optional>

#include "protocol/limit_text.hpp"
#include "server/policy/terms.hpp"

namespace pail::policy {

struct Numbers {
  std::optional<engine::Algorithm> algorithm;
  std::optional<protocol::WrittenRate> rate;  // of buckets
  std::optional<std::uint32_t> burst;         // of buckets; without one, a rate's count
  std::optional<std::uint32_t> limit;         // of windows, and of permits
  std::optional<engine::WindowRule> window;   // of permits: every(ttl)
  std::optional<std::array<std::uint32_t, engine::kPriorities>> reserve;
  std::optional<std::uint64_t> max_wait_ns;
  std::optional<std::uint32_t> max_debt;
  std::optional<engine::LeaseTerms> lease;  // of token buckets
  friend bool operator==(const Numbers&, const Numbers&) = default;
};

// `top`, and what it does not say from `below`. What `below` says and the algorithm has no use for
// is left out: defaults are for policies of all kinds.
[[nodiscard]] Numbers layered(const Numbers& top, const Numbers& below);

// What no limit of its algorithm has is a mistake of whoever wrote it. Empty: nothing is.
[[nodiscard]] std::string fault_in(const Numbers& numbers, engine::Algorithm algorithm);

// Complete and checked: what it accepts, an engine can use.
[[nodiscard]] Parsed<engine::PolicySpec> to_spec(const std::string& name, const Numbers& numbers);

}  // namespace pail::policy
