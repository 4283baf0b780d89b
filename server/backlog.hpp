// How far a shard lags behind, told from how long its turns take, and what it does about it. Used
// by the shard's thread only.
//
// What a peer sends waits in the kernel until the next turn and then for the end of it, where the
// replies leave. So all peers together must not have more waiting than can be decided within their
// deadlines: the rest would only ever be answered late, and an `expired` costs nearly half as much
// as a decision. The first defence is therefore that receive buffers are small
// (ShardLimits::receive_buffer_bytes): peers feel the server's pace, and what cannot be done stays
// with them, where it costs nothing. Where there are so many peers that this is not enough:
//
//   - expected_us(): how long what has arrived will take is known from earlier turns. Requests
//     whose deadline comes before the replies leave are not charged.
//   - serves_next(): where not one turn of a whole interval was short (as in CoDel, Nichols and
//     Jacobson, 2012), only a share of what arrives is decided and the rest answered `overloaded`,
//     which is cheaper. The share falls until a turn is short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace pail::server {

class Backlog {
 public:
  // `long_turn_us` as 0: nothing is ever shed.
  Backlog(std::uint32_t long_turn_us, std::uint32_t interval_us) noexcept
      : long_turn_us_(long_turn_us), interval_us_(interval_us) {}

  // Once a turn, with its reading of the clock and the bytes that have arrived for it. Who has more
  // waiting is received from every `turns`th turn.
  void begin_turn(std::uint64_t now_us, std::size_t arrived_bytes,
                  std::uint32_t turns = 1) noexcept {
    // Where nothing had to be waited for, all the time since the last turn began went into it.
    const std::uint64_t turn_us = is_busy_ ? now_us - turn_began_us_ : 0;
    if (is_busy_ && arrived_bytes_ >= kBusyBytes) learn(turn_us);
    adjust_share(now_us, turn_us * turns);
    turn_began_us_ = now_us;
    arrived_bytes_ = arrived_bytes;
    is_busy_ = arrived_bytes >= kBusyBytes;
  }
  // During the turn: somebody was not received from to the end.
  void note_more_waiting() noexcept { is_busy_ = true; }
  // The next reap must not wait, so that the time until the next turn is all work.
  [[nodiscard]] bool is_busy() const noexcept { return is_busy_; }

  // How long this turn will take; 0 where that is not known yet.
  [[nodiscard]] std::uint32_t expected_us() const noexcept {
    return static_cast<std::uint32_t>(arrived_bytes_ * cost_ns_per_kib_ / (1024 * 1000));
  }

  [[nodiscard]] bool is_shedding() const noexcept { return share_ != kAll; }
  // Of what arrives, chunk by chunk: whether the next one is decided. Spread evenly.
  [[nodiscard]] bool serves_next() noexcept {
    credit_ += share_;
    if (credit_ < kAll) return false;
    credit_ -= kAll;
    return true;
  }

 private:
  static constexpr std::size_t kBusyBytes = 32 * 1024;  // 100 us of work: worth a measurement
  static constexpr std::uint32_t kAll = 256;
  static constexpr std::uint32_t kLeastShare = 16;
  static constexpr std::uint32_t kShareStep = 4;

  // A turn that was interrupted for long says little, so it counts for at most twice the usual.
  void learn(std::uint64_t turn_us) noexcept {
    std::uint64_t sample = turn_us * 1000 * 1024 / arrived_bytes_;
    if (cost_ns_per_kib_ == 0) cost_ns_per_kib_ = sample;
    sample = std::min(sample, 2 * cost_ns_per_kib_);
    cost_ns_per_kib_ = (7 * cost_ns_per_kib_ + sample) / 8;
  }

  void adjust_share(std::uint64_t now_us, std::uint64_t cycle_us) noexcept {
    if (long_turn_us_ == 0) return;
    if (cycle_us <= long_turn_us_) {
      last_short_us_ = now_us;
      share_ = std::min(share_ + kShareStep, kAll);
    } else if (now_us - last_short_us_ >= interval_us_) {
      share_ = std::max(share_ - share_ / 8, kLeastShare);
    }
  }

  const std::uint32_t long_turn_us_;
  const std::uint32_t interval_us_;
  std::uint64_t turn_began_us_ = 0;
  std::size_t arrived_bytes_ = 0;
  bool is_busy_ = false;
  std::uint64_t cost_ns_per_kib_ = 0;  // of received bytes, a moving average; 0: not known yet
  std::uint64_t last_short_us_ = 0;
  std::uint32_t share_ = kAll;
  std::uint32_t credit_ = 0;
};

}  // namespace pail::server
