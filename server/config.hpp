// What the operator asked for, as values: the command line, above the environment, above the file.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "protocol/address.hpp"
#include "server/access.hpp"
#include "server/engine/counter.hpp"
#include "server/engine/engine.hpp"
#include "server/engine/rate.hpp"
#include "server/limits.hpp"
#include "server/log.hpp"
#include "server/policy/store.hpp"

namespace pail::server {

enum class IoChoice : std::uint8_t { automatic, uring, epoll };

struct Config {
  std::vector<protocol::Address> listen;  // at least one
  std::vector<protocol::Address> resp;
  // Nobody asked for the RESP listener, nor said that this is all: where its port is taken, the
  // server serves without it.
  bool is_resp_by_default = false;
  unsigned shards = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  // the most that the table may take
  engine::OnFull on_full = engine::OnFull::refuse;
  std::uint64_t counter_life_ns = engine::kDefaultCounterNs;
  std::string file;                             // of policies and settings; empty: none
  std::vector<policy::Definition> definitions;  // of the file, those of flags above them
  std::vector<policy::Definition> flag_definitions;
  std::vector<engine::PolicySpec> policies;  // of `definitions`, for the engine
  std::vector<engine::OverrideSpec> overrides;
  policy::Unknown unknown;  // policies
  bool is_unknown_of_flag = false;
  bool is_insecure = false;
  std::string token_file;          // empty: none; read again on SIGHUP
  std::optional<Tokens> tokens;    // what was in it
  std::string congestion_control;  // empty: the system's
  std::string ready_file;          // empty: none
  IoChoice io = IoChoice::automatic;
  std::vector<unsigned>
      pinned;  // the core of each shard, over and over; empty: the kernel's choice
  LogOptions log;
  ShardLimits limits;
  std::uint32_t max_connections = 0;  // of all shards together; 0: limits.max_connections each
};

// Why the server does not start: --help, --version and --check-config included, with exit code 0.
struct ConfigExit {
  int code = 2;
  std::string text;
};

// The error is for people: it says what is wrong and what would be right.
[[nodiscard]] tl::expected<Config, ConfigExit> parse_command_line(
    int argc, const char* const* argv,
    const std::function<const char*(const std::string&)>& environment);
[[nodiscard]] tl::expected<Config, ConfigExit> parse_command_line(int argc,
                                                                  const char* const* argv);

}  // namespace pail::server
