// What a shard counts beside what its front end does.
#pragma once

#include <array>
#include <string_view>

#include "server/frontend/counters.hpp"

namespace pail::server {

enum class ShardCount : std::uint8_t {
  turns,
  sleeps,
  events,
  stale_events,
  accepted,
  handed_over,  // to another shard
  accept_errors,
  refused_full,  // at the limit of connections
  closed,
  received_bytes,
  sent_bytes,
  sends,
  read_stops,  // a peer does not read its replies
  floods,      // a peer sends more than its share
  out_of_chunks,
  completion_overflows,
  hello_timeouts,
  stuck_timeouts,
  reply_memory_out,
  receive_errors,
  send_errors,
  reply_bytes_dropped,  // of connections that ended before they were sent
};
inline constexpr std::size_t kShardCounts =
    static_cast<std::size_t>(ShardCount::reply_bytes_dropped) + 1;
inline constexpr std::array<std::string_view, kShardCounts> kShardCountLabels = {
    "turns",
    "sleeps",
    "events",
    "stale_events",
    "accepted",
    "handed_over",
    "accept_errors",
    "refused_full",
    "closed",
    "received_bytes",
    "sent_bytes",
    "sends",
    "read_stops",
    "floods",
    "out_of_chunks",
    "completion_overflows",
    "hello_timeouts",
    "stuck_timeouts",
    "reply_memory_out",
    "receive_errors",
    "send_errors",
    "reply_bytes_dropped"};
static_assert(!kShardCountLabels.back().empty());

using ShardCounters = frontend::Counters<ShardCount, kShardCounts>;

// Of one shard: written by its thread, read by any.
struct Metrics {
  ShardCounters shard;
  frontend::NativeCounters native;
};

}  // namespace pail::server
