#include "client/src/lease_cache.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace pail::internal {
namespace {

using std::chrono::nanoseconds;

constexpr unsigned kUnitBits = 16;        // a unit is 2^16 ns
constexpr std::uint32_t kWorthwhile = 4;  // takes within kWindow
constexpr nanoseconds kWindow = std::chrono::milliseconds(100);
constexpr nanoseconds kLongestTarget = std::chrono::milliseconds(100);
// How long a policy that is not leased is left alone.
constexpr nanoseconds kUnleased = std::chrono::seconds(5);
constexpr std::size_t kMaxUnleased = 1024;
constexpr std::uint32_t kFirstSize = 16;
constexpr nanoseconds kLongestMemory = std::chrono::seconds(1);  // of a refusal

nanoseconds from_units(std::uint64_t units) {
  return nanoseconds(static_cast<std::int64_t>(units << kUnitBits));
}

}  // namespace

LeaseCache::LeaseCache(std::size_t keys, std::uint64_t seed)
    : keys_(std::bit_ceil(std::max(keys, kPlaces))),
      seed_(seed),
      slots_(std::make_unique<Slot[]>(keys_)),
      hungry_(std::make_unique<std::atomic<std::uint64_t>[]>((keys_ + 63) / 64)),
      metas_(keys_) {}

std::uint64_t LeaseCache::to_units(Time time) noexcept {
  return static_cast<std::uint64_t>(nanoseconds(time.time_since_epoch()).count()) >> kUnitBits;
}

std::uint64_t LeaseCache::print_of(std::uint32_t policy, std::string_view key) const noexcept {
  const std::uint64_t print =
      XXH3_64bits_withSeed(key.data(), key.size(), seed_ ^ (std::uint64_t{policy} << 32));
  return print != 0 ? print : 1;
}

LeaseCache::Slot* LeaseCache::find(std::uint64_t print) const noexcept {
  Slot* const places = &slots_[print & (keys_ - kPlaces)];
  for (Slot* slot = places; slot != places + kPlaces; ++slot) {
    if (slot->print.load(std::memory_order_relaxed) == print) return slot;
  }
  return nullptr;
}

std::optional<Decision> LeaseCache::take(std::uint32_t policy, std::string_view key,
                                         std::uint32_t cost, std::uint8_t priority, Time now,
                                         bool& is_hungry) noexcept {
  is_hungry = false;
  const std::uint64_t print = print_of(policy, key);
  Slot* const slot = find(print);
  if (slot == nullptr) return std::nullopt;
  const std::uint64_t units = to_units(now);
  for (;;) {
    // Acquire: if this is the next owner's word, the print below is his.
    std::array<std::uint64_t, 2> seen{slot->words[0].load(std::memory_order_acquire),
                                      slot->words[1].load(std::memory_order_acquire)};
    // The one that expires first, of those that are worth anything.
    std::size_t which = seen[0] <= seen[1] ? 0 : 1;
    if (!is_live(seen[which], units) || tokens_of(seen[which]) < cost) which ^= 1;
    if (slot->print.load(std::memory_order_relaxed) != print) return std::nullopt;
    const std::uint64_t word = seen[which];
    if (!is_live(word, units) || tokens_of(word) < cost) break;
    std::uint64_t expected = word;
    if (!slot->words[which].compare_exchange_strong(expected, word - cost,
                                                    std::memory_order_acq_rel)) {
      continue;  // another has spent some
    }
    const std::uint64_t told = slot->told.load(std::memory_order_relaxed);
    const std::uint32_t left = tokens_of(word) - cost;
    const std::uint32_t low = slot->low_water.load(std::memory_order_relaxed);
    is_hungry = left <= low && left + cost > low && !is_live(seen[which ^ 1], units);
    if (is_hungry) {
      const auto index = static_cast<std::size_t>(slot - slots_.get());
      hungry_[index / 64].fetch_or(std::uint64_t{1} << index % 64, std::memory_order_release);
    }
    Decision decision;
    decision.status = Decision::Status::admitted;
    decision.source = Decision::Source::lease;
    decision.granted = cost;
    decision.limit = static_cast<std::uint32_t>(told >> 32);
    const std::uint64_t remaining = (told & 0xFFFF'FFFFu) + left;
    decision.remaining = static_cast<std::uint32_t>(std::min<std::uint64_t>(remaining, UINT32_MAX));
    return decision;
  }
  const std::uint64_t until = slot->refused_until.load(std::memory_order_relaxed);
  if (until <= units || priority != 0) return std::nullopt;
  if (slot->print.load(std::memory_order_acquire) != print) return std::nullopt;
  refusals_.fetch_add(1, std::memory_order_relaxed);
  Decision decision;
  decision.source = Decision::Source::lease;
  decision.limit = static_cast<std::uint32_t>(slot->told.load(std::memory_order_relaxed) >> 32);
  const std::uint64_t again = std::max(slot->retry_at.load(std::memory_order_relaxed), until);
  decision.retry_after = from_units(again) - nanoseconds(now.time_since_epoch());
  return decision;
}

bool LeaseCache::on_server_decision(std::uint32_t policy, std::string_view key, std::uint32_t cost,
                                    std::uint8_t priority, const Decision& decision, Time sent_at) {
  const std::lock_guard lock(mutex_);
  if (is_unleased(policy, sent_at)) return false;
  const std::uint32_t index = claim(print_of(policy, key), sent_at);
  if (index == keys_) return false;
  Slot& slot = slots_[index];
  Meta& meta = metas_[index];
  slot.told.store(std::uint64_t{decision.limit} << 32, std::memory_order_relaxed);
  if (!decision.admitted()) {
    const bool says_all = decision.status == Decision::Status::denied && cost == 1 && priority == 0;
    if (says_all && meta.target.count() != 0) remember_refusal(slot, decision.retry_after, sent_at);
    return false;
  }
  if (sent_at - meta.window >= kWindow) {
    meta.window = sent_at;
    meta.misses = 0;
  }
  ++meta.misses;
  const bool is_waiting = meta.state == State::queued || meta.state == State::asked;
  if (is_waiting || meta.misses < kWorthwhile || sent_at < meta.not_before) return false;
  meta.policy = policy;
  meta.key = key;
  if (meta.size == 0) meta.size = std::max(2 * meta.misses, kFirstSize);
  enqueue(index);
  return true;
}

bool LeaseCache::is_unleased(std::uint32_t policy, Time now) {
  const auto found = unleased_.find(policy);
  if (found == unleased_.end()) return false;
  if (now < found->second) return true;
  unleased_.erase(found);
  return false;
}

// The key's slot, which may be new; keys_ if there is none for it now.
std::uint32_t LeaseCache::claim(std::uint64_t print, Time now) {
  const auto first = static_cast<std::uint32_t>(print & (keys_ - kPlaces));
  std::uint32_t oldest = static_cast<std::uint32_t>(keys_);
  for (std::uint32_t index = first; index < first + kPlaces; ++index) {
    if (slots_[index].print.load(std::memory_order_relaxed) == print) return index;
    if (!can_change_owner(index, now)) continue;
    if (oldest == keys_ || metas_[index].window < metas_[oldest].window) oldest = index;
  }
  if (oldest == keys_) return oldest;
  drain(oldest, 0, to_units(now));
  drain(oldest, 1, to_units(now));
  Slot& slot = slots_[oldest];
  slot.refused_until.store(0, std::memory_order_relaxed);
  slot.print.store(print, std::memory_order_release);
  Meta& meta = metas_[oldest];
  meta = Meta{};
  meta.window = now;
  return oldest;
}

bool LeaseCache::can_change_owner(std::uint32_t index, Time now) const noexcept {
  const Slot& slot = slots_[index];
  const std::uint64_t units = to_units(now);
  const State state = metas_[index].state;
  return state != State::queued && state != State::asked &&
         !is_live(slot.words[0].load(std::memory_order_acquire), units) &&
         !is_live(slot.words[1].load(std::memory_order_acquire), units) &&
         slot.refused_until.load(std::memory_order_relaxed) <= units;
}

// Empties a word that is worth nothing any more.
void LeaseCache::drain(std::uint32_t index, std::size_t which, std::uint64_t now) {
  std::atomic<std::uint64_t>& word = slots_[index].words[which];
  std::uint64_t seen = word.load(std::memory_order_acquire);
  if (seen == 0 || is_live(seen, now)) return;
  seen = word.exchange(0, std::memory_order_acq_rel);
  expired_ += tokens_of(seen);
  Meta& meta = metas_[index];
  if (2 * tokens_of(seen) > meta.granted[which]) meta.size /= 2;
}

void LeaseCache::enqueue(std::uint32_t index) {
  metas_[index].state = State::queued;
  queue_.push_back(index);
}

std::optional<LeaseCache::Errand> LeaseCache::next_errand(Time now) {
  const std::lock_guard lock(mutex_);
  while (!queue_.empty()) {
    const std::uint32_t index = queue_.front();
    queue_.pop_front();
    Meta& meta = metas_[index];
    if (is_unleased(meta.policy, now)) {
      meta.state = State::watched;
      continue;
    }
    meta.state = State::asked;
    return Errand{index, meta.policy, std::clamp(meta.size, 1u, kMaxTokens), 0, meta.key};
  }
  for (std::size_t group = 0; group < (keys_ + 63) / 64; ++group) {
    std::uint64_t bits = hungry_[group].load(std::memory_order_acquire);
    while (bits != 0) {
      const auto bit = static_cast<unsigned>(std::countr_zero(bits));
      hungry_[group].fetch_and(~(std::uint64_t{1} << bit), std::memory_order_relaxed);
      bits &= bits - 1;
      const auto index = static_cast<std::uint32_t>(group * 64 + bit);
      Meta& meta = metas_[index];
      if (meta.state != State::leased || now < meta.not_before) continue;
      if (now - meta.window < meta.target / 2) meta.size = std::min(2 * meta.size, kMaxTokens);
      meta.state = State::asked;
      return Errand{index, meta.policy, std::clamp(meta.size, 1u, kMaxTokens), 0, meta.key};
    }
  }
  return std::nullopt;
}

void LeaseCache::on_lease(std::uint32_t index, const Lease& lease) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[index];
  Meta& meta = metas_[index];
  meta.state = State::watched;
  meta.misses = 0;
  meta.window = lease.sent_at;
  if (lease.ttl.count() == 0) {
    if (unleased_.size() >= kMaxUnleased) unleased_.clear();
    unleased_[meta.policy] = lease.sent_at + kUnleased;
    return;
  }
  meta.target = std::min(kLongestTarget, lease.ttl / 2);
  if (lease.granted == 0) {  // its takes are exact; asked again, but not at once
    meta.not_before = lease.sent_at + meta.target;
    return;
  }
  const std::uint64_t expiry = to_units(lease.sent_at + lease.ttl);
  const std::uint64_t units = to_units(lease.sent_at);
  drain(index, 0, units);
  drain(index, 1, units);
  const std::size_t which = slot.words[0].load(std::memory_order_acquire) == 0 ? 0 : 1;
  const std::uint32_t tokens = std::min(lease.granted, kMaxTokens);
  std::uint64_t before = slot.words[which].load(std::memory_order_acquire);
  if (tokens_of(before) != 0) {  // two leases that live already: this one is more than is needed
    before = slot.words[which].exchange(0, std::memory_order_acq_rel);
    expired_ += tokens_of(before);
  }
  meta.state = State::leased;
  meta.grants[which] = lease.grant;
  meta.granted[which] = tokens;
  leased_ += lease.granted;
  expired_ += lease.granted - tokens;
  slot.low_water.store(tokens / 2, std::memory_order_relaxed);
  slot.told.store(std::uint64_t{lease.limit} << 32 | lease.remaining, std::memory_order_relaxed);
  slot.refused_until.store(0, std::memory_order_relaxed);
  // Release: who reads the word sees the print, which was stored before.
  slot.words[which].store(expiry << kTokenBits | tokens, std::memory_order_release);
}

void LeaseCache::on_refusal(std::uint32_t index, nanoseconds wait, Time sent_at) {
  const std::lock_guard lock(mutex_);
  Meta& meta = metas_[index];
  meta.state = State::leased;  // what it still holds is spent as before
  meta.misses = 0;
  meta.size = std::max(meta.size / 2, 1u);
  meta.not_before = sent_at + std::min(wait, kLongestMemory);
  remember_refusal(slots_[index], wait, sent_at);
}

void LeaseCache::remember_refusal(Slot& slot, nanoseconds wait, Time sent_at) noexcept {
  const nanoseconds known = std::min<nanoseconds>(wait, std::chrono::hours(24 * 366));
  slot.retry_at.store(to_units(sent_at + known) + 1, std::memory_order_relaxed);
  slot.refused_until.store(to_units(sent_at + std::min(wait, kLongestMemory)),
                           std::memory_order_relaxed);
}

void LeaseCache::on_failure(std::uint32_t index, Time now) {
  const std::lock_guard lock(mutex_);
  Meta& meta = metas_[index];
  meta.state = meta.target.count() != 0 ? State::leased : State::watched;
  meta.misses = 0;
  meta.not_before = now + kWindow;
}

bool LeaseCache::sweep(Time now) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t units = to_units(now);
  bool is_any_live = false;
  for (std::uint32_t index = 0; index < keys_; ++index) {
    if (metas_[index].state == State::watched && metas_[index].granted[0] == 0 &&
        metas_[index].granted[1] == 0) {
      continue;
    }
    drain(index, 0, units);
    drain(index, 1, units);
    const bool is_idle =
        can_change_owner(index, now) && now - metas_[index].window > 4 * metas_[index].target;
    if (is_idle) metas_[index].state = State::watched;
    is_any_live = is_any_live || metas_[index].state != State::watched;
  }
  return is_any_live || !queue_.empty();
}

std::vector<LeaseCache::Errand> LeaseCache::take_out(Time now) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t units = to_units(now);
  std::vector<Errand> errands;
  for (std::uint32_t index = 0; index < keys_; ++index) {
    for (std::size_t which = 0; which < 2; ++which) {
      drain(index, which, units);
      const std::uint64_t word = slots_[index].words[which].exchange(0, std::memory_order_acq_rel);
      const Meta& meta = metas_[index];
      if (tokens_of(word) == 0) continue;
      expired_ += tokens_of(word);  // until it has come back
      errands.push_back({index, meta.policy, tokens_of(word), meta.grants[which], meta.key});
    }
  }
  return errands;
}

void LeaseCache::on_returned(std::uint32_t tokens) noexcept {
  const std::lock_guard lock(mutex_);
  returned_ += tokens;
  expired_ -= tokens;
}

LeaseCounters LeaseCache::read() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t held = 0;
  for (std::size_t index = 0; index < keys_; ++index) {
    for (const auto& word : slots_[index].words) {
      held += tokens_of(word.load(std::memory_order_relaxed));
    }
  }
  LeaseCounters counters;
  counters.leased = leased_;
  counters.returned = returned_;
  counters.expired = expired_;
  counters.spent = leased_ - returned_ - expired_ - held;
  counters.refusals = refusals_.load(std::memory_order_relaxed);
  return counters;
}

}  // namespace pail::internal
