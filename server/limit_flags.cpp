#include "server/limit_flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace pail::server {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
constexpr std::uint32_t kMaxTimeoutS = 24 * 3600;
constexpr std::uint32_t kMaxReplyMemoryMib = 1024 * 1024;
constexpr std::uint32_t kMaxReceiveBufferKib = 16 * 1024;
constexpr std::uint32_t kMaxLongTurnUs = 1'000'000;
constexpr std::uint32_t kMaxBusyPollUs = 1'000'000;

}  // namespace

void add_limit_flags(CLI::App& app, LimitFlags& flags) {
  const char* const group = "Limits";
  app.add_option(
         "--max-connections", flags.max_connections,
         fmt::format("Connections at once; default: {} a shard", kDefaultLimits.max_connections))
      ->check(CLI::Range(1u, kMaxShards * kDefaultLimits.max_connections))
      ->type_name("N")
      ->group(group);
  app.add_option("--reply-memory", flags.reply_memory_mib,
                 fmt::format("Memory for replies that peers have not read yet; default: {} a shard",
                             kDefaultLimits.reply_memory_bytes / kMiB))
      ->check(CLI::Range(1u, kMaxReplyMemoryMib))
      ->type_name("MIB")
      ->group(group);
  app.add_option("--receive-buffer", flags.receive_buffer_kib,
                 "What the kernel may hold of a TCP connection until it is read. More suits long "
                 "distances, less shorter deadlines under overload; 0: its own choice, megabytes")
      ->check(CLI::Range(0u, kMaxReceiveBufferKib))
      ->capture_default_str()
      ->type_name("KIB")
      ->group(group);
  app.add_option("--hello-timeout", flags.hello_timeout_s,
                 "How long a new connection may take to say HELLO")
      ->check(CLI::Range(1u, kMaxTimeoutS))
      ->capture_default_str()
      ->type_name("S")
      ->group(group);
  app.add_option("--stuck-timeout", flags.stuck_timeout_s,
                 "How long a peer may read none of its replies, or leave a frame half sent")
      ->check(CLI::Range(1u, kMaxTimeoutS))
      ->capture_default_str()
      ->type_name("S")
      ->group(group);
  app.add_option("--idle-timeout", flags.idle_timeout_s,
                 "How long a connection may be silent; 0: for ever, as long as the peer is alive")
      ->check(CLI::Range(0u, kMaxTimeoutS))
      ->capture_default_str()
      ->type_name("S")
      ->group(group);
  app.add_option("--long-turn", flags.long_turn_us,
                 "A shard whose turns of the loop all take longer than this is overloaded: part of "
                 "what arrives is answered so, instead of late; 0: never")
      ->check(CLI::Range(0u, kMaxLongTurnUs))
      ->capture_default_str()
      ->type_name("US")
      ->group(group);
  app.add_option(
         "--busy-poll", flags.busy_poll_us,
         "How long a shard goes on looking for the next request, instead of sleeping, after "
         "it had one: lowest latency, for a core that does nothing else meanwhile")
      ->check(CLI::Range(0u, kMaxBusyPollUs))
      ->capture_default_str()
      ->type_name("US")
      ->group(group);
}

tl::expected<ShardLimits, std::string> to_limits(const LimitFlags& flags, unsigned shards) {
  ShardLimits limits;
  if (flags.max_connections != 0 && flags.max_connections < shards) {
    return tl::unexpected(fmt::format("--max-connections {}: one a shard at least, {} shards",
                                      flags.max_connections, shards));
  }
  if (flags.reply_memory_mib != 0) {
    limits.reply_memory_bytes = std::size_t{flags.reply_memory_mib} * kMiB / shards;
    const std::size_t least = limits.reply_reserve_bytes + 4 * limits.reply_window_bytes;
    if (limits.reply_memory_bytes < least) {
      return tl::unexpected(fmt::format("--reply-memory {}: {} MiB at least for {} shards",
                                        flags.reply_memory_mib, (least * shards + kMiB - 1) / kMiB,
                                        shards));
    }
  }
  limits.receive_buffer_bytes = flags.receive_buffer_kib * 1024;
  limits.hello_timeout_ms = flags.hello_timeout_s * 1000;
  limits.stuck_timeout_ms = flags.stuck_timeout_s * 1000;
  limits.hoarding_timeout_ms = std::min(limits.hoarding_timeout_ms, limits.stuck_timeout_ms);
  limits.idle_timeout_ms = flags.idle_timeout_s * 1000;
  limits.long_turn_us = flags.long_turn_us;
  limits.busy_poll_us = flags.busy_poll_us;
  return limits;
}

}  // namespace pail::server
