// The deadline of a call, said on the server's clock, so that a server which reads the request too
// late charges nothing. Pure arithmetic on values; immutable after the greeting, so any thread may
// read it.
//
// The greeting's answer carries the server's clock S, read after the greeting was sent at T0 on our
// clock. The server's clock at our instant D is then at most S + (D - T0), give or take how
// unequally the two clocks run. We send that upper bound plus a margin: a request is never expired
// while its caller still waits. The margin is one millisecond plus 1/1000 of the time since T0,
// twice what NTP may slew a clock. Once it exceeds a second the value would protect nobody, and 0
// (none) is sent.
#pragma once

#include <chrono>
#include <cstdint>

namespace pail::internal {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

struct ServerClock {
  std::uint64_t server_us = 0;
  Time sent_at{};

  static constexpr std::chrono::nanoseconds kFixedMargin = std::chrono::milliseconds(1);
  static constexpr std::int64_t kDriftDivisor = 1000;
  static constexpr std::chrono::nanoseconds kUselessMargin = std::chrono::seconds(1);
  // The field counts modulo 2^32 us (71 minutes); the server reads it within half of that.
  static constexpr std::chrono::nanoseconds kMaxAhead = std::chrono::minutes(30);

  // For Request::expires_us; 0 where nothing useful can be said.
  [[nodiscard]] std::uint32_t expires_us(Time now, Time deadline) const noexcept {
    const std::chrono::nanoseconds margin = kFixedMargin + (now - sent_at) / kDriftDivisor;
    if (margin > kUselessMargin || deadline - now > kMaxAhead) return 0;
    const auto ahead = std::chrono::ceil<std::chrono::microseconds>(deadline - sent_at + margin);
    const auto value =
        static_cast<std::uint32_t>(server_us + static_cast<std::uint64_t>(ahead.count()));
    return value != 0 ? value : 1;  // 0 says "none"; a microsecond later says the same thing
  }
};

}  // namespace pail::internal
