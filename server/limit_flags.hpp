// The limits that an operator may want to move, as flags.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "server/limits.hpp"

namespace CLI {
class App;
}

namespace pail::server {

// 0: the default of ShardLimits.
struct LimitFlags {
  std::uint32_t max_connections = 0;  // of all shards together, as the next
  std::uint32_t reply_memory_mib = 0;
  std::uint32_t receive_buffer_kib = kDefaultLimits.receive_buffer_bytes / 1024;
  std::uint32_t hello_timeout_s = kDefaultLimits.hello_timeout_ms / 1000;
  std::uint32_t stuck_timeout_s = kDefaultLimits.stuck_timeout_ms / 1000;
  std::uint32_t idle_timeout_s = kDefaultLimits.idle_timeout_ms / 1000;
  std::uint32_t long_turn_us = kDefaultLimits.long_turn_us;
  std::uint32_t busy_poll_us = kDefaultLimits.busy_poll_us;
};

void add_limit_flags(CLI::App& app, LimitFlags& flags);

// Of each shard. The error names the flag.
[[nodiscard]] tl::expected<ShardLimits, std::string> to_limits(const LimitFlags& flags,
                                                               unsigned shards);

}  // namespace pail::server
