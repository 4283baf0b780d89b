// What `pail` prints: a friendly line, or one JSON object for scripts. Pure: values in, text out.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <pail/decision.hpp>
#include <pail/error.hpp>
#include <pail/stats.hpp>

namespace pail::command {

// For people, rounded up to a tenth of its unit, so that nobody comes back too early: "333.4 ms".
[[nodiscard]] std::string text_of(std::chrono::nanoseconds duration);

[[nodiscard]] std::string text_of(const Decision& decision, bool is_peek);
[[nodiscard]] std::string json_of(const Decision& decision);
// `layers` as they were written.
[[nodiscard]] std::string text_of(const LayersDecision& decision,
                                  const std::vector<std::string>& layers);
[[nodiscard]] std::string json_of(const LayersDecision& decision);
[[nodiscard]] std::string json_of(const Error& error);

// A layer of take-all: POLICY=KEY or POLICY*COST=KEY.
struct WrittenLayer {
  std::string policy;
  std::uint32_t cost = 1;
  std::string key;
};
[[nodiscard]] Result<WrittenLayer> parse_layer(std::string_view text);
// A table without the counters that are zero; with `before` also what each counter grew by a second
// since then.
[[nodiscard]] std::string text_of(const ServerStats& stats, const ServerStats* before = nullptr,
                                  std::chrono::nanoseconds since = {});
// `policies`: the answer to "stats" about them, where there is one.
[[nodiscard]] std::string json_of(const ServerStats& stats, const PolicyAnswer* policies = nullptr);
// Of that answer, the policies that something was asked of.
[[nodiscard]] std::string text_of_policies(const PolicyAnswer& policies);
[[nodiscard]] std::string json_of(const PolicyAnswer& answer);
[[nodiscard]] std::string json_of_reset();
[[nodiscard]] std::string json_of_ping(std::chrono::nanoseconds round_trip);

}  // namespace pail::command
