// The last few inline limits of one worker, converted: most requests repeat one, and the conversion
// costs three divisions. Bounded; used by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <tl/expected.hpp>

#include "server/engine/rate.hpp"
#include "server/engine/token_bucket.hpp"

namespace pail::engine {

class RateMemo {
 public:
  // A result stays valid while this many further limits are made.
  static constexpr std::size_t kKept = 64;

  [[nodiscard]] tl::expected<const TokenBucket*, RateFault> find_or_make(
      const Rate& rate) noexcept {
    if (rate == entries_[newest_].rate) return &entries_[newest_].limit;
    const auto limit = make_token_bucket(rate);
    if (!limit) return tl::unexpected(limit.error());
    newest_ = (newest_ + 1) % entries_.size();
    entries_[newest_] = {rate, *limit};
    return &entries_[newest_].limit;
  }

 private:
  struct Entry {
    Rate rate;
    TokenBucket limit;
  };

  // The first is a usable limit, so that every entry that is compared with is a true pair.
  static constexpr Rate kFirst{.period_ns = 1, .count = 1, .burst = 1};
  std::array<Entry, kKept + 1> entries_{Entry{kFirst, *make_token_bucket(kFirst)}};
  std::size_t newest_ = 0;
};

}  // namespace pail::engine
