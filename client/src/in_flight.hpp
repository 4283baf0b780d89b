// The requests of one connection that wait for their answers: a ring in the order of sending,
// because answers come in that order. Guarded by the connection's mutex.
//
//      oldest_                       next_
//        v                             v
//   | .. | call | abandoned | call |   .. |      entry = number modulo capacity
//
// A caller that gives up leaves its place behind, empty, until the answer has come: so the number
// of answers that a stopped server owes us is bounded too, and a late answer is told from a wrong
// one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace pail::internal {

template <class Call>
class InFlight {
 public:
  explicit InFlight(std::size_t limit) : calls_(std::bit_ceil(limit), nullptr), limit_(limit) {}

  [[nodiscard]] bool empty() const noexcept { return oldest_ == next_; }
  [[nodiscard]] bool full() const noexcept { return next_ - oldest_ >= limit_; }
  [[nodiscard]] std::uint64_t oldest() const noexcept { return oldest_; }
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }

  // Tags are numbers modulo 2^32 - 1, plus 1: tag 0 is the server's own.
  [[nodiscard]] static std::uint32_t tag(std::uint64_t number) noexcept {
    return static_cast<std::uint32_t>(number % 0xFFFF'FFFFu) + 1;
  }

  // Its number, from 0 up. Must not be full.
  std::uint64_t push(Call* call) noexcept {
    calls_[index(next_)] = call;
    return next_++;
  }

  // Null if its caller has given up.
  [[nodiscard]] Call* at(std::uint64_t number) const noexcept { return calls_[index(number)]; }
  void abandon(std::uint64_t number) noexcept { calls_[index(number)] = nullptr; }

  // Removes the oldest; must not be empty.
  Call* pop() noexcept {
    Call* call = calls_[index(oldest_)];
    calls_[index(oldest_)] = nullptr;
    ++oldest_;
    return call;
  }

 private:
  [[nodiscard]] std::size_t index(std::uint64_t number) const noexcept {
    return static_cast<std::size_t>(number) & (calls_.size() - 1);
  }

  std::vector<Call*> calls_;
  std::size_t limit_;
  std::uint64_t oldest_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace pail::internal
