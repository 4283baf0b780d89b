// What a shard counts beside what its front end does.
#pragma once

#include <array>
#include <bit>
#include <string_view>

#include "server/frontend/resp/resp_counters.hpp"

namespace pail::server {

enum class ShardCount : std::uint8_t {
  turns,
  sleeps,
  events,
  stale_events,
  accepted,
  handed_over,  // to another shard
  accept_errors,
  refused_full,         // at the limit of connections
  refused_descriptors,  // at the limit of descriptors
  closed,
  received_bytes,
  sent_bytes,
  sends,
  read_stops,  // a peer does not read its replies
  floods,      // a peer sends more than its share
  sheddings,   // chunks that were answered `overloaded`
  out_of_chunks,
  completion_overflows,
  hello_timeouts,
  stuck_timeouts,
  idle_timeouts,
  hoarders,  // cut with unread replies when memory was short
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
    "refused_descriptors",
    "closed",
    "received_bytes",
    "sent_bytes",
    "sends",
    "read_stops",
    "floods",
    "sheddings",
    "out_of_chunks",
    "completion_overflows",
    "hello_timeouts",
    "stuck_timeouts",
    "idle_timeouts",
    "hoarders",
    "reply_memory_out",
    "receive_errors",
    "send_errors",
    "reply_bytes_dropped"};
static_assert(!kShardCountLabels.back().empty());

using ShardCounters = frontend::Counters<ShardCount, kShardCounts>;

// How long turns took, from the reading of the clock to the end of the turn, sleep excluded: bucket
// i counts those of less than 2^i us that are not in an earlier one, the last bucket all others.
enum class TurnTime : std::uint8_t {};
inline constexpr std::size_t kTurnTimes = 21;
inline constexpr std::array<std::string_view, kTurnTimes> kTurnTimeLabels = {
    "turns_below_1us",     "turns_below_2us",      "turns_below_4us",      "turns_below_8us",
    "turns_below_16us",    "turns_below_32us",     "turns_below_64us",     "turns_below_128us",
    "turns_below_256us",   "turns_below_512us",    "turns_below_1024us",   "turns_below_2048us",
    "turns_below_4096us",  "turns_below_8192us",   "turns_below_16384us",  "turns_below_32768us",
    "turns_below_65536us", "turns_below_131072us", "turns_below_262144us", "turns_below_524288us",
    "turns_of_524288us_up"};
static_assert(!kTurnTimeLabels.back().empty());

[[nodiscard]] constexpr TurnTime turn_time_of(std::uint64_t us) noexcept {
  const auto bucket = static_cast<std::size_t>(std::bit_width(us));
  return static_cast<TurnTime>(bucket < kTurnTimes ? bucket : kTurnTimes - 1);
}
static_assert(turn_time_of(0) == TurnTime{0} && turn_time_of(1) == TurnTime{1} &&
              turn_time_of(2) == TurnTime{2} && turn_time_of(3) == TurnTime{2} &&
              turn_time_of(4) == TurnTime{3} && turn_time_of(~std::uint64_t{0}) == TurnTime{20});

// Of one shard: written by its thread, read by any.
struct Metrics {
  ShardCounters shard;
  frontend::NativeCounters native;
  frontend::RespCounters resp;
  frontend::Counters<TurnTime, kTurnTimes> turn_times;
};

}  // namespace pail::server
