// The command line of `pail`, read into a value. Nothing here talks to a server.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace pail::command {

enum class Action : std::uint8_t {
  take,
  peek,
  reset,
  ping,
  stats,
  take_all,
  settle,
  acquire,
  renew,
  release,
  policy,
  explain
};

inline constexpr int kExitAdmitted = 0;
inline constexpr int kExitRefused = 1;
inline constexpr int kExitError = 2;

struct Arguments {
  std::string server = "127.0.0.1:7245";
  std::string token;
  std::string token_file;                   // else
  std::chrono::milliseconds timeout{1000};  // for connecting, and again for the call
  bool json = false;

  Action action = Action::ping;
  std::string key;
  std::string policy;       // or else a rate and its burst
  std::string rate;         // "10/s"
  std::uint32_t burst = 0;  // 0: the rate's count
  std::uint32_t cost = 1;
  std::uint32_t priority = 0;
  bool partial = false;

  std::uint64_t grant = 0;             // renew, release
  std::uint32_t actual = 0;            // settle: what the cost turned out to be
  std::vector<std::string> layers;     // take-all: POLICY=KEY or POLICY*COST=KEY
  std::vector<std::string> words;      // policy: what to do
  std::uint32_t shard = 0;             // stats: 0 for all together
  std::chrono::milliseconds watch{0};  // stats: again and again; 0: once
};

// What to do, or the exit status of a command line that was answered already (--help, a mistake).
using Parsed = std::variant<Arguments, int>;
[[nodiscard]] Parsed parse_arguments(int count, const char* const* words);

}  // namespace pail::command
