// When the next request of an open loop is due: intended times that do not depend on any answer.
//
// The threads of a run share one stream of arrivals: thread i of n has every n-th of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "bench/random.hpp"
#include "bench/trace.hpp"

namespace pail::bench {

struct Arrival {
  enum class Kind : std::uint8_t {
    closed,   // no schedule: the next request when the last was answered
    even,     // one every 1 / per_s
    poisson,  // independent of each other, per_s on average: what many callers look like
    trace,    // as recorded
  };
  Kind kind = Kind::closed;
  double per_s = 0;
};

// "50k/s", "1200/s", "1.5M/s", each also as "poisson:50k/s". The error is for the user.
[[nodiscard]] tl::expected<Arrival, std::string> parse_arrival(std::string_view text);
[[nodiscard]] std::string format_arrival(const Arrival& arrival);

class Schedule {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  // `trace` is borrowed, and null unless the arrival is by trace.
  Schedule(const Arrival& arrival, const Trace* trace, std::uint32_t thread, std::uint32_t threads,
           std::uint64_t seed);

  // The run begins: what is due at 0 is due at `now_ns`.
  void start(std::uint64_t now_ns) noexcept;
  // When the next request is due; kNever when there are no more.
  [[nodiscard]] std::uint64_t due_ns() const noexcept { return due_ns_; }
  // The trace's entry that is due; only with a trace.
  [[nodiscard]] const TraceEntry& entry() const noexcept { return trace_->entries[index_]; }
  void advance() noexcept;

 private:
  void find_due() noexcept;

  Arrival arrival_;
  const Trace* trace_;
  std::uint64_t index_;  // of the arrival that is due, in the whole run's stream
  std::uint64_t step_;
  double gap_ns_;
  double elapsed_ns_ = 0;  // poisson: of this thread's own stream
  Random random_;
  std::uint64_t start_ns_ = 0;
  std::uint64_t due_ns_ = kNever;
};

}  // namespace pail::bench
