// One thread of load: its connections, its ring, its closed loop.
//
// Every connection sends `pipeline` requests in one write, waits for all the replies, then sends
// the next batch. A latency is counted from the moment a batch is handed to the ring until its last
// reply was seen: waiting for the generator's own turn is part of it, so it is never flattering.
//
// Nothing allocates once the loop runs. One thread runs it; any other may read progress() and
// latencies() meanwhile, and the results once that thread has been joined.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/batch.hpp"
#include "bench/histogram.hpp"
#include "bench/load_options.hpp"

namespace pail::bench {

// Shared by the threads of a run, read once a turn.
struct RunControl {
  std::atomic<bool> stop{false};  // set by whoever wants an early end: finish what is in flight
};

// For the live line: written by the generator, read by anyone, relaxed; about right at any moment.
struct Progress {
  std::atomic<std::uint64_t> answered{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<bool> is_measuring{false};
};

struct GeneratorResult {
  StatusCounts measured;    // replies seen in the measured part
  StatusCounts unmeasured;  // in the warm-up, and what was still in flight at the end
  std::uint64_t sent = 0;
  std::uint64_t measured_ns = 0;
  std::uint64_t completions = 0;  // of the ring; over turns, a measure of how well it batches
  std::uint64_t turns = 0;
};

class Generator {
 public:
  // `index` of options.threads; `requests` is this thread's share, where the run counts requests.
  Generator(const LoadOptions& options, std::uint32_t index);
  ~Generator();
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

  // Connects and greets all connections. On the thread that will call run(), for the ring is its
  // own.
  [[nodiscard]] tl::expected<void, std::string> open();

  // Until the time is over, the requests are answered, control.stop is set or something goes wrong.
  [[nodiscard]] tl::expected<void, std::string> run(const RunControl& control);

  // From another thread: shuts all connections, so that run() ends although the server is silent.
  void abort() noexcept;

  [[nodiscard]] const Progress& progress() const noexcept { return progress_; }
  [[nodiscard]] const LiveHistogram& latencies() const noexcept { return latencies_; }
  [[nodiscard]] const GeneratorResult& result() const noexcept { return result_; }

 private:
  struct Connection;
  struct Impl;

  Progress progress_;
  LiveHistogram latencies_;  // of batches, in ns, of the measured part
  GeneratorResult result_;
  std::unique_ptr<Impl> impl_;
};

// Splits `total` over `parts`: what part `index` gets.
[[nodiscard]] constexpr std::uint64_t share_of(std::uint64_t total, std::uint64_t parts,
                                               std::uint64_t index) noexcept {
  return total / parts + (index < total % parts ? 1 : 0);
}

}  // namespace pail::bench
