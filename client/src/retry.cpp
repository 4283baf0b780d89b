#include <pail/retry.hpp>

#include <algorithm>

namespace pail {

using std::chrono::nanoseconds;

void RetryBudget::on_first_attempt() noexcept {
  std::int64_t left = left_.load(std::memory_order_relaxed);
  while (left < most_ && !left_.compare_exchange_weak(left, std::min(left + part_, most_),
                                                      std::memory_order_relaxed)) {
  }
}

bool RetryBudget::try_retry() noexcept {
  std::int64_t left = left_.load(std::memory_order_relaxed);
  while (left >= kWhole) {
    if (left_.compare_exchange_weak(left, left - kWhole, std::memory_order_relaxed)) return true;
  }
  return false;
}

namespace {

// The first number of a minstd_rand is a multiple of its seed: seeds that are close together would
// make callers that are in step.
std::minstd_rand::result_type scattered(std::uint64_t seed) noexcept {
  return static_cast<std::minstd_rand::result_type>((seed * 0x9E37'79B9'7F4A'7C15u) >> 32);
}

}  // namespace

Retry::Retry(const RetryOptions& options, std::uint64_t seed) noexcept
    : options_(options), random_(scattered(seed)) {
  if (options_.budget != nullptr) options_.budget->on_first_attempt();
}

std::optional<nanoseconds> Retry::after(const Decision& refusal) noexcept {
  if (refusal.admitted() || refusal.status == Decision::Status::never) return std::nullopt;
  return next(refusal.retry_after);
}

std::optional<nanoseconds> Retry::after_failure() noexcept {
  return next(nanoseconds(0));
}

std::optional<nanoseconds> Retry::next(nanoseconds at_least) noexcept {
  if (attempts_ >= options_.max_attempts || at_least > options_.longest_wait) return std::nullopt;
  nanoseconds most = std::max(options_.base, nanoseconds(0));
  for (std::uint32_t n = 1; n < attempts_ && most < options_.cap; ++n) most *= 2;
  most = std::min({most, options_.cap, options_.longest_wait - at_least});
  std::uniform_int_distribution<std::int64_t> draw(0, std::max<std::int64_t>(most.count(), 0));
  const nanoseconds wait = at_least + nanoseconds(draw(random_));
  if (options_.budget != nullptr && !options_.budget->try_retry()) return std::nullopt;
  ++attempts_;
  return wait;
}

Pacer::Pacer(std::uint32_t count, nanoseconds period) noexcept
    : interval_ns_((std::max<std::int64_t>(period.count(), 1) - 1) / std::max(count, 1u) + 1) {}

std::optional<nanoseconds> Pacer::reserve(Clock::time_point now,
                                          nanoseconds longest_wait) noexcept {
  const std::int64_t now_ns = nanoseconds(now.time_since_epoch()).count();
  std::int64_t next = next_ns_.load(std::memory_order_relaxed);
  for (;;) {
    const std::int64_t turn = std::max(next, now_ns);
    if (turn - now_ns > longest_wait.count()) return std::nullopt;
    if (next_ns_.compare_exchange_weak(next, turn + interval_ns_, std::memory_order_relaxed)) {
      return nanoseconds(turn - now_ns);
    }
  }
}

}  // namespace pail
