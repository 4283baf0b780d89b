#include "client/src/local_buckets.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "protocol/messages.hpp"

namespace pail::internal {
namespace {

constexpr std::size_t kPlaces = 8;  // of a key
// burst x interval; with the steady clock's reading on top nothing overflows.
constexpr std::uint64_t kMaxHorizonNs = std::uint64_t{1} << 61;
// Told to those for whom there is no place: nobody knows when one will be free.
constexpr std::chrono::nanoseconds kNoPlaceRetry = std::chrono::seconds(1);

std::uint64_t to_ns(Time time) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(time.time_since_epoch()).count());
}

std::chrono::nanoseconds from_ns(std::uint64_t ns) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
}

}  // namespace

LocalBuckets::LocalBuckets(std::size_t keys, std::uint32_t gateways, std::uint64_t seed)
    : keys_(std::bit_ceil(std::max(keys, kPlaces))), gateways_(gateways), seed_(seed) {}

Decision LocalBuckets::take(std::span<const Ask> asks, bool partial, Time now) {
  assert(asks.size() <= protocol::kMaxLayers);
  struct Undo {
    Entry* entry;
    Entry before;
  };
  std::array<Undo, protocol::kMaxLayers> undo{};
  std::size_t charged = 0;
  const std::uint64_t now_ns = to_ns(now);
  Decision all;
  all.source = Decision::Source::fallback_local;
  all.status = Decision::Status::admitted;
  all.remaining = UINT32_MAX;

  const std::lock_guard lock(mutex_);
  if (entries_.empty()) entries_.resize(keys_);
  for (const Ask& ask : asks) {
    Entry* const entry = find(ask, now_ns);
    if (entry == nullptr) {
      all.status = Decision::Status::denied;
      all.retry_after = std::max(all.retry_after, kNoPlaceRetry);
      all.remaining = 0;
      continue;
    }
    undo[charged++] = {entry, *entry};
    charge(ask, partial, *entry, now_ns, all);
  }
  if (all.admitted()) return all;
  while (charged > 0) {
    --charged;
    *undo[charged].entry = undo[charged].before;
  }
  all.granted = 0;
  return all;
}

LocalBuckets::Share LocalBuckets::share_of(const Limit& limit) const noexcept {
  // At most 366 days x 256 gateways: below 2^63.
  const std::uint64_t period = static_cast<std::uint64_t>(limit.period().count()) * gateways_;
  const std::uint64_t interval = period / limit.count() + (period % limit.count() != 0 ? 1 : 0);
  const std::uint64_t burst =
      std::min<std::uint64_t>(limit.burst() / gateways_, kMaxHorizonNs / interval);
  return {interval, static_cast<std::uint32_t>(std::max<std::uint64_t>(burst, 1))};
}

// The key's entry, or one that may become it; null if there is none.
LocalBuckets::Entry* LocalBuckets::find(const Ask& ask, std::uint64_t now_ns) noexcept {
  // As at the server: an inline rate is identified by the key alone, which is policy 0.
  const std::uint64_t seed = seed_ ^ (std::uint64_t{ask.limit->policy_id()} << 32);
  const std::uint64_t hash = XXH3_64bits_withSeed(ask.key.data(), ask.key.size(), seed);
  const std::uint64_t print = hash != 0 ? hash : 1;
  Entry* const places = &entries_[hash & (keys_ - kPlaces)];
  Entry* idle = nullptr;
  for (Entry* entry = places; entry != places + kPlaces; ++entry) {
    if (entry->print == print) return entry;
    if (entry->full_at <= now_ns) idle = entry;
  }
  if (idle != nullptr) *idle = {print, 0};
  return idle;
}

void LocalBuckets::charge(const Ask& ask, bool partial, Entry& entry, std::uint64_t now_ns,
                          Decision& all) const {
  const Share share = share_of(*ask.limit);
  const std::uint64_t horizon = share.burst * share.per_token_ns;
  // Numbers that were lowered since leave a word further ahead; it is no more than empty.
  const std::uint64_t base = std::clamp(entry.full_at, now_ns, now_ns + horizon);
  const auto left = static_cast<std::uint32_t>((horizon - (base - now_ns)) / share.per_token_ns);
  const std::uint32_t cost = partial ? std::min(ask.cost, std::max(left, 1u)) : ask.cost;
  std::uint64_t full_at = base;
  std::uint32_t remaining = left;
  if (cost <= left) {
    full_at += cost * share.per_token_ns;
    remaining -= cost;
    all.granted += cost;
  } else {
    all.status = Decision::Status::denied;
    // More than fits at once is asked again when all there can be is there.
    const std::uint64_t wanted = std::min(cost, share.burst) * share.per_token_ns;
    all.retry_after = std::max(all.retry_after, from_ns(base + wanted - now_ns - horizon));
  }
  entry.full_at = full_at;
  if (remaining < all.remaining) {
    all.remaining = remaining;
    all.limit = share.burst;
  }
  all.reset_after = std::max(all.reset_after, from_ns(full_at - now_ns));
}

}  // namespace pail::internal
