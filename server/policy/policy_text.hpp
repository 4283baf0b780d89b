// One policy as one line, for --policy:
//
//   NAME=RATE,BURST                           token bucket: partner=10/s,20
//   NAME=leaky:RATE,BURST,max_wait=DURATION   queue: jobs=leaky:10/s,1,max_wait=2s
//   NAME=fixed:LIMIT/WINDOW                   api=fixed:1000/min   plan=fixed:10000/month,anchor=15
//   NAME=sliding:LIMIT/WINDOW                 api=sliding:100/min
//   NAME=concurrency:LIMIT,ttl=DURATION       render=concurrency:10,ttl=30s
//
// and behind any of them, where it makes sense:
//
//   reserve=N or N/N/N   tokens that priority 0 (and 1, and 2) leaves for the higher ones
//   max_debt=N           tokens that a settlement may overdraw by
//   lease=TTL/SHARE%/N   of token buckets: how long, at most which part, at least how many; 200ms/10%/8
//
// WINDOW is whole seconds (s, 5min, h, d, 30d), a week (from Monday) or a month, all of UTC.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "server/engine/policy_spec.hpp"

namespace pail::policy {

// The error says what is wrong and what would be right; what it accepts, an engine can use.
[[nodiscard]] tl::expected<engine::PolicySpec, std::string> parse_policy_text(
    std::string_view text);

// For --help.
inline constexpr std::string_view kPolicyHelp =
    "A named limit, repeatable: a token bucket NAME=RATE,BURST as in partner=10/s,20; or "
    "NAME=leaky:RATE,BURST,max_wait=2s, NAME=fixed:LIMIT/WINDOW (seconds, min, h, d, week, month "
    "with anchor=DAY), NAME=sliding:LIMIT/WINDOW, NAME=concurrency:LIMIT,ttl=30s. Behind it, "
    "where it makes sense: reserve=N/N/N of priorities 0, 1, 2; max_debt=N, lease=200ms. See docs/limits.md";

}  // namespace pail::policy
