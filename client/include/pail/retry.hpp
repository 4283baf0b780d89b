// For those who are limited: when to ask again, and how to call others no faster than they like.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>

#include <pail/decision.hpp>

namespace pail {

// How much of the traffic may be retries, over all callers that share it: a service in trouble is
// not to be buried under second attempts. Each first attempt earns a part of a retry, up to `most`.
// Any thread.
class RetryBudget {
 public:
  // One retry for each `attempts_a_retry` first attempts (at least 1), and at first `most` of them.
  explicit RetryBudget(std::uint32_t attempts_a_retry = 10, std::uint32_t most = 100) noexcept
      : part_(kWhole / (attempts_a_retry != 0 ? attempts_a_retry : 1)),
        most_(most * kWhole),
        left_(most_) {}

  void on_first_attempt() noexcept;
  [[nodiscard]] bool try_retry() noexcept;  // false: not this time

 private:
  static constexpr std::int64_t kWhole = 1'000'000;  // parts of a retry
  const std::int64_t part_;
  const std::int64_t most_;
  std::atomic<std::int64_t> left_;  // relaxed: nothing else depends on it
};

struct RetryOptions {
  std::uint32_t max_attempts = 4;  // the first one included
  // The pause before the n-th retry is drawn evenly from 0 to base x 2^(n-1), at most `cap` ("full
  // jitter": the callers of a service that comes back do not return in step), on top of what the
  // refusal said.
  std::chrono::nanoseconds base = std::chrono::milliseconds(50);
  std::chrono::nanoseconds cap = std::chrono::seconds(5);
  // Who would have to wait longer gives up.
  std::chrono::nanoseconds longest_wait = std::chrono::seconds(30);
  RetryBudget* budget = nullptr;  // shared, and outlives its users; null: no budget
};

// The attempts of one request. One thread.
//
//   pail::Retry retry(options);
//   for (;;) {
//     auto decision = client.take(limit, key);
//     if (decision && decision->admitted()) break;
//     const auto wait = decision ? retry.after(*decision) : retry.after_failure();
//     if (!wait) break;                       // give up
//     std::this_thread::sleep_for(*wait);
//   }
class Retry {
 public:
  explicit Retry(const RetryOptions& options, std::uint64_t seed = std::random_device{}()) noexcept;

  // How long to wait before the next attempt: never less than the refusal's retry_after. Nothing:
  // give up; what is `never` admitted is not asked again.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> after(const Decision& refusal) noexcept;
  // The same after an attempt that brought no answer. Whether it may be repeated at all is the
  // caller's to know: see Error::maybe_charged.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> after_failure() noexcept;

 private:
  [[nodiscard]] std::optional<std::chrono::nanoseconds> next(
      std::chrono::nanoseconds at_least) noexcept;

  const RetryOptions options_;
  std::uint32_t attempts_ = 1;
  std::minstd_rand random_;
};

// Spaces calls evenly: at most `count` in a `period`, no two closer than period / count (rounded
// up). For calls to somebody whose limit is known, without asking anybody. Any thread; lock-free.
class Pacer {
 public:
  using Clock = std::chrono::steady_clock;

  // count of at least 1, period of at least 1 ns.
  Pacer(std::uint32_t count, std::chrono::nanoseconds period) noexcept;

  // How long this call has to wait for its turn, which is its own from now on, used or not.
  // Nothing: its turn would be later than `longest_wait` from now, and is left to others.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> reserve(
      Clock::time_point now = Clock::now(),
      std::chrono::nanoseconds longest_wait = std::chrono::hours(1)) noexcept;

 private:
  const std::int64_t interval_ns_;
  std::atomic<std::int64_t> next_ns_{0};  // the first turn that is nobody's yet; relaxed: alone
};

}  // namespace pail
