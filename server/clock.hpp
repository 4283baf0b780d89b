// The server's clock: time since it started, never set back, read once a turn by each shard.
#pragma once

#include <time.h>

#include <cstdint>

#include "server/engine/ticks.hpp"
#include "server/frontend/native.hpp"

namespace pail::server {

class Clock {
 public:
  Clock() noexcept : epoch_ns_(read_ns()) {}

  [[nodiscard]] frontend::Now now() const noexcept {
    const std::uint64_t ns = read_ns() - epoch_ns_;
    return {engine::ticks_from_ns(ns), ns / 1000};
  }

 private:
  // CLOCK_MONOTONIC: stepped by nobody, and the same for all threads.
  [[nodiscard]] static std::uint64_t read_ns() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }

  std::uint64_t epoch_ns_;
};

}  // namespace pail::server
