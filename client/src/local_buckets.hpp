// Token buckets of this process, for the time in which no server decides (OnFailure::local).
//
// GCRA over nanoseconds (ITU-T I.371; see server/engine/token_bucket.hpp for the same in the
// server): a key's word is the time at which its bucket is full again. Each bucket is one share of
// `gateways` of its limit: the interval of a token is `gateways` times as long, rounded up, and the
// burst a `gateways`-th, rounded down but at least one. So n clients with n gateways admit together
// at most the limit's rate, and its burst where that is at least n.
//
// Memory: `keys` entries of 16 bytes, made when they are first needed. A key has eight places;
// where all of them hold other keys that are not full again, it is refused: a flood of new keys
// gets nothing for nothing. Keys whose 64-bit prints clash share a bucket. One mutex: this is no
// fast path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include <pail/decision.hpp>
#include <pail/limit.hpp>
#include "client/src/server_clock.hpp"

namespace pail::internal {

class LocalBuckets {
 public:
  struct Ask {
    const Limit* limit;  // its numbers are known: count, period and burst are not 0
    std::string_view key;
    std::uint32_t cost;
  };

  LocalBuckets(std::size_t keys, std::uint32_t gateways, std::uint64_t seed);

  // From all of them, at most 8, or from none: admitted, or denied. With `partial`, which is for
  // one ask, less than the cost will do. The numbers are of the tightest, of times the longest.
  [[nodiscard]] Decision take(std::span<const Ask> asks, bool partial, Time now);

 private:
  struct Entry {
    std::uint64_t print = 0;
    std::uint64_t full_at = 0;  // ns of the steady clock
  };
  struct Share {
    std::uint64_t per_token_ns;
    std::uint32_t burst;
  };
  [[nodiscard]] Share share_of(const Limit& limit) const noexcept;
  [[nodiscard]] Entry* find(const Ask& ask, std::uint64_t now_ns) noexcept;
  void charge(const Ask& ask, bool partial, Entry& entry, std::uint64_t now_ns,
              Decision& all) const;

  const std::size_t keys_;
  const std::uint32_t gateways_;
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // guarded by the mutex
};

}  // namespace pail::internal
