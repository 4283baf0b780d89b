// Writes into the log what the shards' counters say has gone wrong since the last time: one line a
// kind, with how often and one example, and no more than one in that kind's interval. So a flood of
// faults is a handful of lines a minute, whatever the peers do.
//
// Used by one thread, which calls report() about once a second.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "server/faults.hpp"
#include "server/log.hpp"

namespace pail::server {

// How often each fault has happened since the start.
using FaultTotals = std::array<std::uint64_t, kFaults>;

struct FaultKind {
  LogEvent event;
  std::uint32_t interval_s;  // at most one line in this time
};
[[nodiscard]] const FaultKind& kind_of(Fault fault) noexcept;

class Journal {
 public:
  using TakeNote = std::function<std::optional<FaultNote>(Fault)>;

  explicit Journal(Log& log) : log_(log) {}

  // `now_ms`: of any clock that only goes forward.
  void report(std::uint64_t now_ms, const FaultTotals& totals, const TakeNote& take_note);

 private:
  struct Told {
    std::uint64_t total = 0;
    std::uint64_t next_ms = 0;
  };

  Log& log_;
  std::array<Told, kFaults> told_{};
};

}  // namespace pail::server
