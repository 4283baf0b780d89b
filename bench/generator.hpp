// One thread of load: its connections, its ring, and a closed or an open loop over them.
//
// Closed (closed_loop.cpp): every connection sends `pipeline` requests in one write, waits for all
// the replies, then sends the next batch. A latency is counted from the moment a batch is handed to
// the ring until its last reply was seen: waiting for the generator's own turn is part of it.
//
// Open (open_loop.cpp): requests are due at times that do not depend on any answer, and a latency
// is counted from the moment a request was due. A server that pauses is charged for every request
// that should have been sent meanwhile; a closed loop would have sent one.
//
// Nothing allocates once the loop runs, an audit's memory excepted. One thread runs it; any other
// may read progress, latencies and lag meanwhile, and the rest once that thread has been joined.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/audit_sample.hpp"
#include "bench/histogram.hpp"
#include "bench/load_options.hpp"
#include "bench/reply_reader.hpp"

namespace pail::bench {

// Shared by the threads of a run, read once a turn.
struct RunControl {
  std::atomic<bool> stop{false};  // set by whoever wants an early end: finish what is in flight
};

// For the live line: written by the generator, read by anyone, relaxed; about right at any moment.
struct Progress {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> answered{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> errors{0};
  std::atomic<bool> is_measuring{false};
};

struct GeneratorResult {
  StatusCounts measured;    // replies seen in the measured part
  StatusCounts unmeasured;  // in the warm-up, and what was still in flight at the end
  std::uint64_t sent = 0;
  std::uint64_t measured_ns = 0;
  std::uint64_t offered = 0;      // open loop: requests that were due in the measured part
  std::uint64_t unanswered = 0;   // and got no answer although the generator waited for it
  std::uint64_t completions = 0;  // of the ring; over turns, a measure of how well it batches
  std::uint64_t turns = 0;
};

struct Meters {
  Progress progress;
  LiveHistogram latencies;  // in ns, of the measured part: of batches, in the open loop of requests
  LiveHistogram lag;        // open loop: how late the generator itself was, in ns
  GeneratorResult result;
  std::vector<Grant> grants;  // of the whole run, where it is audited
  bool has_lost_grants = false;
};

class Loop;

class Generator {
 public:
  // `index` of options.threads. The options are borrowed.
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

  [[nodiscard]] const Progress& progress() const noexcept { return meters_.progress; }
  [[nodiscard]] const LiveHistogram& latencies() const noexcept { return meters_.latencies; }
  [[nodiscard]] const Meters& meters() const noexcept { return meters_; }
  [[nodiscard]] const GeneratorResult& result() const noexcept { return meters_.result; }

 private:
  Meters meters_;
  std::unique_ptr<Loop> loop_;
};

// Splits `total` over `parts`: what part `index` gets.
[[nodiscard]] constexpr std::uint64_t share_of(std::uint64_t total, std::uint64_t parts,
                                               std::uint64_t index) noexcept {
  return total / parts + (index < total % parts ? 1 : 0);
}

}  // namespace pail::bench
