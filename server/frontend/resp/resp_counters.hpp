// What the RESP front end counts.
#pragma once

#include "server/frontend/counters.hpp"

namespace pail::frontend {

enum class RespCount : std::uint8_t {
  commands,
  batches,  // groups of takes
  counter_commands,
  admitted,
  denied,  // shed and never included
  table_full,
  overloaded,
  errors,        // other answers that are errors
  malformed,     // no RESP: closed
  unauthorized,  // a wrong token: closed
};
inline constexpr std::size_t kRespCounts = static_cast<std::size_t>(RespCount::unauthorized) + 1;
inline constexpr std::array<std::string_view, kRespCounts> kRespCountLabels = {
    "resp_commands",  "resp_batches",     "resp_counter_commands", "resp_admitted",
    "resp_denied",    "resp_table_full",  "resp_overloaded",       "resp_errors",
    "resp_malformed", "resp_unauthorized"};
static_assert(!kRespCountLabels.back().empty());

using RespCounters = Counters<RespCount, kRespCounts>;

}  // namespace pail::frontend
