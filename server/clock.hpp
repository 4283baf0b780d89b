// The server's clock: time since it started, never set back, read once a turn by each shard.
#pragma once

#include <time.h>

#include <cstdint>

#include "server/engine/engine.hpp"
#include "server/engine/ticks.hpp"
#include "server/frontend/native.hpp"

namespace pail::server {

class Clock {
 public:
  Clock() noexcept : epoch_ns_(read_ns(CLOCK_MONOTONIC)), utc_ns_(read_ns(CLOCK_REALTIME)) {}

  [[nodiscard]] frontend::Now now() const noexcept {
    const std::uint64_t ns = read_ns(CLOCK_MONOTONIC) - epoch_ns_;
    return {engine::ticks_from_ns(ns), ns / 1000};
  }

  // UTC when this clock showed 0, as the system had it then: windows stay where they are, whatever
  // is done to the system's clock later.
  [[nodiscard]] std::uint64_t utc_epoch_ns() const noexcept { return utc_ns_; }

  // For a worker that needs to know what time it is by now. The clock must outlive it.
  [[nodiscard]] engine::ClockSource source() const noexcept {
    return {[](const void* self) noexcept { return static_cast<const Clock*>(self)->now().ticks; },
            this};
  }

 private:
  // CLOCK_MONOTONIC: stepped by nobody, and the same for all threads.
  [[nodiscard]] static std::uint64_t read_ns(clockid_t id) noexcept {
    timespec time{};
    ::clock_gettime(id, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

  std::uint64_t epoch_ns_;
  std::uint64_t utc_ns_;
};

}  // namespace pail::server
