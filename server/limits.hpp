// Every limit of the server in one place, and what they owe to each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/messages.hpp"
#include "server/frontend/native.hpp"
#include "server/frontend/reply_queue.hpp"
#include "server/io/backend.hpp"

namespace pail::server {

inline constexpr unsigned kMaxShards = 64;
inline constexpr unsigned kMaxListeners = 16;

// Per shard. A slot that was never used costs no memory, only address space.
struct ShardLimits {
  std::uint32_t max_connections = 16 * 1024;

  // What a peer may leave unread before it is read no more. It is less while many peers do so at
  // once: no more than a quarter of the reply memory that is left, so that a crowd of stuck peers
  // cannot take the memory that the others need.
  std::size_t reply_window_bytes = 256 * 1024;
  std::size_t reply_memory_bytes = 64 * 1024 * 1024;
  // Kept for those that do read: where less is left, whoever has unread replies is not received
  // from, a stuck peer has hoarding_timeout_ms instead of stuck_timeout_ms, and who is owed more
  // than hoard_bytes is cut rather than owed more.
  std::size_t reply_reserve_bytes = 16 * 1024 * 1024;
  std::size_t hoard_bytes = 64 * 1024;

  // Chunks of one connection in one turn above which it counts as a flood: from then on it is
  // received from one chunk a turn, so that the others get theirs.
  std::uint32_t flood_chunks = 4;
  // All floods together: the others wait for no more chunks than these.
  std::uint32_t floods_per_turn = 16;
  // What the kernel holds for us of one TCP connection before the peer must wait. More would only
  // be older when we get to it: see backlog.hpp. 0: the system's choice, up to megabytes.
  std::uint32_t receive_buffer_bytes = 12 * 1024;

  // A shard whose turns all took longer than the first for the time of the second lags behind: part
  // of what arrives is answered `overloaded`, until turns are short again. The first as 0: never.
  std::uint32_t long_turn_us = 5'000;
  std::uint32_t overload_interval_us = 100'000;

  // How long a shard goes on looking for work, instead of sleeping, after it had some. 0: it
  // sleeps.
  std::uint32_t busy_poll_us = 0;

  std::uint32_t hello_timeout_ms = 5'000;   // from accept until HELLO is whole
  std::uint32_t stuck_timeout_ms = 30'000;  // no reply byte could be sent, or half a frame came
  std::uint32_t hoarding_timeout_ms = 1'000;
  std::uint32_t idle_timeout_ms = 0;      // nothing was received; 0: no limit
  std::uint32_t linger_ms = 1'000;        // after the last reply, for the peer to read it
  std::uint32_t goodbye_ms = 500;         // after SIGTERM and GOAWAY requests are still read
  std::uint32_t drain_ms = 4'000;         // after SIGTERM; then whoever is left is cut off
  std::uint32_t tick_ms = 250;            // how often timeouts are looked at
  std::uint32_t accept_backoff_ms = 100;  // without descriptors or memory for a socket
  std::uint32_t max_handed_over = 1024;   // sockets on their way from one shard to another

  io::Sizes io;
};

// What is read and thrown away after the last reply: a peer that goes on sending is cut off.
inline constexpr std::size_t kLingerBytes = 1024 * 1024;
inline constexpr std::uint32_t kMinMaxConnections = 1;
inline constexpr std::uint32_t kListenPatienceMs = 2'000;  // for a killed server's address
inline constexpr std::uint32_t kHardStopMs = 5'000;  // from SIGTERM to the exit of the process

inline constexpr ShardLimits kDefaultLimits{};
static_assert(kDefaultLimits.reply_window_bytes >= 2 * frontend::ReplyBlock::kSizeBytes);
static_assert(kDefaultLimits.reply_memory_bytes >=
                  kDefaultLimits.reply_reserve_bytes + 4 * kDefaultLimits.reply_window_bytes,
              "one stuck peer gets a whole window");
static_assert(kDefaultLimits.reply_reserve_bytes >=
                  std::size_t{kDefaultLimits.io.chunks} * kDefaultLimits.io.chunk_bytes /
                      protocol::kRequestHeaderBytes * protocol::kReplyHeaderBytes,
              "the replies to all that one turn can receive");
static_assert(kDefaultLimits.hoard_bytes >= 2 * frontend::ReplyBlock::kSizeBytes);
static_assert(kDefaultLimits.floods_per_turn >= 1);
static_assert(kDefaultLimits.long_turn_us * 10 <= kDefaultLimits.overload_interval_us);
static_assert(kDefaultLimits.hoard_bytes < kDefaultLimits.reply_window_bytes);
static_assert(kDefaultLimits.hoarding_timeout_ms <= kDefaultLimits.stuck_timeout_ms);
static_assert(kDefaultLimits.drain_ms < kHardStopMs);
static_assert(kDefaultLimits.goodbye_ms + kDefaultLimits.tick_ms + kDefaultLimits.linger_ms <
              kDefaultLimits.drain_ms);
static_assert(kDefaultLimits.tick_ms <= kDefaultLimits.linger_ms);
static_assert(kDefaultLimits.io.chunk_bytes >= protocol::kMaxFrameBytes,
              "a frame is split over two chunks at most, once");
static_assert(kDefaultLimits.io.completions >= 2 * kDefaultLimits.io.submissions);

}  // namespace pail::server
