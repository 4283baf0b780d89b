// A whole run: the threads of load, the watch over them, and what they found, added up.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "bench/batch.hpp"
#include "bench/histogram.hpp"
#include "bench/load_options.hpp"

namespace pail::bench {

struct LoadResult {
  StatusCounts total;
  StatusCounts measured;
  std::uint64_t sent = 0;
  double seconds = 0;          // of the measured part
  double requests_per_s = 0;   // of the measured part
  double generator_cpu_s = 0;  // user and system time of this process during the whole run
  double completions_per_turn = 0;
  Histogram latencies_ns;  // of batches
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
