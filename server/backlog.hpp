// How far a shard lags behind, told from how long its turns take. Used by the shard's thread only.
//
// The age of what waits in a socket cannot be seen. But a connection that has more than one chunk
// waiting is received from once a turn, or once in several where there are many of them. So what it
// sends now waits at least for those turns, and a turn in which nothing had to be waited for is as
// long as the work of it: that is the delay which the next request meets. As in CoDel (Nichols and
// Jacobson, 2012) it is a standing backlog only if it stays: if not one turn of a whole interval
// was short.
#pragma once

#include <cstdint>

namespace pail::server {

class Backlog {
 public:
  Backlog(std::uint32_t long_turn_us, std::uint32_t interval_us) noexcept
      : long_turn_us_(long_turn_us), interval_us_(interval_us) {}

  // Once a turn, with its reading of the clock. Who has more waiting is received from every
  // `turns`th turn.
  void begin_turn(std::uint64_t now_us, std::uint32_t turns = 1) noexcept {
    turn_us_ = is_more_waiting_ ? static_cast<std::uint32_t>(now_us - turn_began_us_) : 0;
    if (std::uint64_t{turn_us_} * turns <= long_turn_us_) last_short_us_ = now_us;
    turn_began_us_ = now_us;
    is_more_waiting_ = false;
  }
  // During the turn: somebody's chunk came full. The next reap must not wait then, so that the time
  // until the next turn is all work.
  void note_more_waiting() noexcept { is_more_waiting_ = true; }
  [[nodiscard]] bool is_more_waiting() const noexcept { return is_more_waiting_; }

  // How long the last turn took; 0 where it may have waited.
  [[nodiscard]] std::uint32_t turn_us() const noexcept { return turn_us_; }
  [[nodiscard]] bool is_standing() const noexcept {
    return long_turn_us_ != 0 && turn_began_us_ - last_short_us_ >= interval_us_;
  }

 private:
  const std::uint32_t long_turn_us_;
  const std::uint32_t interval_us_;
  std::uint64_t turn_began_us_ = 0;
  std::uint64_t last_short_us_ = 0;
  std::uint32_t turn_us_ = 0;
  bool is_more_waiting_ = false;
};

}  // namespace pail::server
