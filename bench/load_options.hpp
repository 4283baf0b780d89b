// What a run of the load generator is asked to do: plain values, already checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/key_source.hpp"
#include "bench/op_mix.hpp"
#include "bench/schedule.hpp"
#include "bench/target.hpp"
#include "bench/trace.hpp"
#include "protocol/address.hpp"
#include "protocol/messages.hpp"

namespace pail::bench {

inline constexpr std::uint32_t kMaxConnections =
    4096;  // a thread; two completions each fit its ring
inline constexpr std::uint32_t kMaxThreads = 256;
inline constexpr std::uint32_t kMaxPipeline =
    4096;  // replies of a batch stay below a server's window
static_assert(kMaxPipeline * protocol::kReplyHeaderBytes <= 256 * 1024);

struct LoadOptions {
  Target target;
  std::string script_sha;  // of the token bucket in Lua, where the target needs it
  protocol::Address server;
  std::string congestion;  // TCP congestion control of the generator's side; empty: the system's
  std::string token;       // where the server wants one
  std::uint32_t connections = 50;
  std::uint32_t threads = 1;
  std::uint32_t pipeline = 1;
  std::uint32_t keys = 1'000'000;
  Distribution distribution;
  std::size_t key_size_bytes = 16;
  // Either a named policy or a limit of the generator's own.
  std::string policy;
  protocol::InlineLimit limit;
  std::string rate_text;  // as given, for the report
  std::uint32_t cost = 1;
  OpMix mix;
  std::vector<std::string> layers;     // further policies that a `layers` request takes from
  Arrival arrival;                     // closed: the next batch when the last was answered
  std::shared_ptr<const Trace> trace;  // where the arrival is by trace
  bool is_audited = false;             // remember every token that was granted
  // Either a time or a number of requests, after a warm-up that is checked but not measured.
  std::uint64_t duration_ns = 5'000'000'000;
  std::optional<std::uint64_t> requests;
  std::uint64_t warmup_ns = 300'000'000;
  std::uint64_t ramp_ns = 0;  // the connections begin one after another, over this time
  int pin_cpu = -1;           // of the first thread; the others follow it. -1: not pinned
  std::uint64_t seed = 0;
};

}  // namespace pail::bench
