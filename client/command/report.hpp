// What `pail` prints: a friendly line, or one JSON object for scripts. Pure: values in, text out.
#pragma once

#include <chrono>
#include <string>

#include <pail/decision.hpp>
#include <pail/error.hpp>
#include <pail/stats.hpp>

namespace pail::command {

// For people, rounded up to a tenth of its unit, so that nobody comes back too early: "333.4 ms".
[[nodiscard]] std::string text_of(std::chrono::nanoseconds duration);

[[nodiscard]] std::string text_of(const Decision& decision, bool is_peek);
[[nodiscard]] std::string json_of(const Decision& decision);
[[nodiscard]] std::string json_of(const Error& error);
// A table without the counters that are zero; with `before` also what each counter grew by a second
// since then.
[[nodiscard]] std::string text_of(const ServerStats& stats, const ServerStats* before = nullptr,
                                  std::chrono::nanoseconds since = {});
[[nodiscard]] std::string json_of(const ServerStats& stats);
[[nodiscard]] std::string json_of_reset();
[[nodiscard]] std::string json_of_ping(std::chrono::nanoseconds round_trip);

}  // namespace pail::command
