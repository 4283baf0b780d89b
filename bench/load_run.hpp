// A whole run: the threads of load, the watch over them, and what they found, added up.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/audit_sample.hpp"
#include "bench/histogram.hpp"
#include "bench/load_options.hpp"
#include "bench/reply_reader.hpp"

namespace pail::bench {

// One interval of the time series.
struct TimelineRow {
  double at_s = 0;  // since the connections were open, at the interval's end
  bool is_measured = false;
  double requests_per_s = 0;
  double refused_per_s = 0;
  double errors_per_s = 0;
  double p50_ns = 0, p99_ns = 0, p999_ns = 0;  // 0 where nothing was measured
};

struct LoadResult {
  StatusCounts total;
  StatusCounts measured;
  std::uint64_t sent = 0;
  double seconds = 0;          // of the measured part
  double requests_per_s = 0;   // of the measured part
  double generator_cpu_s = 0;  // user and system time of this process during the whole run
  double completions_per_turn = 0;
  Histogram latencies_ns;  // of batches; in the open loop of requests, from when they were due
  // The open loop: what was asked for, and how late the generator itself was.
  std::uint64_t offered = 0;
  std::uint64_t unanswered = 0;
  Histogram lag_ns;
  std::vector<TimelineRow> timeline;
  std::vector<Grant> grants;  // where the run is audited
  bool has_lost_grants = false;

  // Whether the open loop's latencies are the generator's as much as the server's.
  [[nodiscard]] bool is_generator_late() const noexcept {
    return lag_ns.total() != 0 && lag_ns.percentile(99) > kLateNs;
  }
  static constexpr std::uint64_t kLateNs = 1'000'000;
};

// What the live line shows: the time since the last one.
struct LiveView {
  double elapsed_s = 0;
  bool is_measuring = false;
  double requests_per_s = 0;
  double refused_percent = 0;
  Histogram latencies_ns;
};

struct LoadHooks {
  std::function<void(const LiveView&)> on_progress;  // a few times a second; empty: none
  const volatile std::sig_atomic_t* stop = nullptr;  // set by a signal handler: end early
};

// The error is for the user: no connection, a wrong reply, a silent server.
[[nodiscard]] tl::expected<LoadResult, std::string> run_load(const LoadOptions& options,
                                                             const LoadHooks& hooks);

}  // namespace pail::bench
