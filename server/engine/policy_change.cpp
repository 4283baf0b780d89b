// What a change of policies does: the set that replaces another, and words that were left by it.
#include "server/engine/worker_impl.hpp"

namespace pail::engine {
namespace {

// How old a reading of the clock can be where it is not read again behind the word. Else nothing is
// left: whoever wrote the word has read the clock before.
constexpr Ticks kOldReading = ticks_from_ns(1'000'000);

bool may_tell_of_a_stale_word(const Request& request, const Decision& decision) noexcept {
  if (request.has_inline_rate || request.action == Action::reset) return false;
  return decision.reset_ns != 0 && (decision.granted == 0 || decision.info != 0);
}

}  // namespace

tl::expected<std::uint32_t, std::string> Engine::replace_policies(
    std::span<const PolicySpec> policies, std::span<const OverrideSpec> overrides,
    const UnknownPolicy& unknown) {
  const auto version = impl_->policies.replace(
      [&](const PolicySet& before) {
        auto next = PolicySet::make(policies, before.version() + 1, impl_->hasher, overrides,
                                    &before, unknown);
        if (next) impl_->counters.assign(*next, impl_->policies.settled_version());
        return next;
      },
      [this] { return impl_->table.stamp(); });
  if (!version) return tl::unexpected(version.error().text);
  settle_policies();
  return *version;
}

std::uint32_t Engine::policies_version() const noexcept {
  return impl_->policies.version();
}

void Engine::settle_policies() noexcept {
  impl_->settle_policies();
}

PolicyCounts Engine::policy_counts(std::uint32_t policy) const noexcept {
  return impl_->counters.of(policy);
}

std::uint64_t Engine::unknown_policies() const noexcept {
  return impl_->counters.unknown();
}

const Policy* Worker::Impl::find_unknown(std::uint32_t id) noexcept {
  if (id == 0) return nullptr;
  counts->add(kSlotOfUnknown, 0, 1);
  return set->fallback();
}

void Worker::count_expired(std::uint32_t policy) noexcept {
  impl_->load_policies();
  if (const Policy* const found = impl_->find_policy(policy)) {
    impl_->counts->add(found->slot, static_cast<std::size_t>(PolicyColumn::expired), 1);
  }
}

// True: the word was lowered, and a decision made on it is to be made again.
bool Worker::Impl::lower_stale(const Policy& policy, KeyHash hash, std::uint64_t reset_ns,
                               Ticks now) noexcept {
  if (!policy.limit.is_bucket() || reset_ns <= ns_rounded_up(policy.longest)) return false;
  if (!engine.policies.is_settled(*set)) {
    engine.settle_policies();
    if (!engine.policies.is_settled(*set)) return false;
  }
  const TokenBucket& bucket = policy.limit_of(hash).queue.bucket;
  const Ticks slack = clock.read != nullptr ? 0 : kOldReading;
  bool is_lowered = false;
  engine.table.update(participant, hash, Access::find, now,
                      [&](Word word, Ticks at) noexcept -> std::optional<Word> {
                        is_lowered = false;
                        // Whoever has written this word by a newer set loaded it before: then it is
                        // seen here, too.
                        if (&engine.policies.current() != set) return std::nullopt;
                        const Word next = lowered_stale_word(bucket, policy.longest, word,
                                                             clock.fresh(at), slack);
                        if (next == 0) return std::nullopt;
                        is_lowered = true;
                        return next;
                      });
  return is_lowered;
}

// After a batch: what was refused because of words that an older set of policies has left.
[[gnu::cold]] void Worker::Impl::look_behind(std::span<const Request> requests, Ticks now,
                                             std::span<Decision> decisions) noexcept {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!may_tell_of_a_stale_word(requests[i], decisions[i])) continue;
    const Policy* policy = set->find(requests[i].policy);
    if (policy == nullptr) policy = set->fallback();
    if (policy == nullptr) continue;
    const KeyHash hash = KeyHasher::hash(policy->prefix, requests[i].key);
    if (!lower_stale(*policy, hash, decisions[i].reset_ns, now)) continue;
    decide(requests.subspan(i, 1), clock.fresh(now), decisions.subspan(i, 1));
  }
}

}  // namespace pail::engine
