// What is decided one by one: several limits at once, takes that are settled later, permits.
#include <algorithm>
#include <cstring>
#include <limits>

#include "server/engine/permit_entries.hpp"
#include "server/engine/worker_impl.hpp"

namespace pail::engine {
namespace {

constexpr unsigned kProofBits = 34;
constexpr Mark mark_of_grant(std::uint64_t id) noexcept {
  return static_cast<Mark>(id >> kProofBits);
}

constexpr std::string_view kNoPermits =
    "the policy is no concurrency policy: it gives no permits, TAKE from it";
// The answer names no layer's numbers but the tightest's, and the longest of the times.
void summarize(LayersDecision& all, std::span<const PlannedLayer> layers,
               const LayersJudgement& judged) noexcept {
  all.layer = judged.refusing;
  Decision& decision = all.decision;
  decision.remaining = std::numeric_limits<std::uint32_t>::max();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    Decision one;
    answer(one, *layers[i].limit, judged.layers[i]);
    all.layers[i] = {one.remaining, one.limit, one.reset_ns};
    if (one.remaining < decision.remaining) {
      decision.remaining = one.remaining;
      decision.limit = one.limit;
    }
    decision.reset_ns = std::max(decision.reset_ns, one.reset_ns);
    if (judged.refusing == kNoLayer) {
      decision.wait_ns = std::max(decision.wait_ns, one.wait_ns);
      decision.granted +=
          std::min(one.granted, std::numeric_limits<std::uint32_t>::max() - decision.granted);
    } else if (judged.refusing == i) {
      decision.verdict = one.verdict;
      decision.wait_ns = one.wait_ns;
    }
  }
}

Receipt receipt_of(const Judgement& judgement, const Request& request, KeyHash key,
                   std::uint32_t resets, std::uint16_t policy_version) noexcept {
  return {.entry = judgement.entry,
          .at = judgement.at,
          .tokens = judgement.granted,
          .mark = judgement.mark,
          .resets = resets,
          .policy = request.policy,
          .policy_version = policy_version,
          .key = key};
}

}  // namespace

// For what is asked by policy only, of the set that was loaded. plan.policy is nothing where the
// decision is made: refused.
Plan Worker::Impl::plan_policy(const Request& request, Decision& decision) noexcept {
  decision = {};
  Plan plan;
  const Policy* const policy = request.has_inline_rate ? nullptr : find_policy(request.policy);
  if (const std::string_view fault = find_fault(request); !fault.empty()) {
    refuse(decision, Verdict::bad_request, fault);
  } else if (request.has_inline_rate) {
    refuse(decision, Verdict::bad_request, "this is for named policies, not for an inline limit");
  } else if (policy == nullptr) {
    refuse(decision, Verdict::unknown_policy, "there is no policy of this id");
  } else {
    plan.policy = policy;
    plan.hash = KeyHasher::hash(policy->prefix, request.key);
    decision.policy_version = policy->version;
    decision.slot = policy->slot;
    if (policy->find_override(plan.hash) != nullptr) decision.info = kInfoOverride;
  }
  return plan;
}

Plan Worker::Impl::plan_permit(const Request& request, Decision& decision) noexcept {
  load_policies();
  Plan plan = plan_policy(request, decision);
  if (plan.policy != nullptr && plan.policy->limit.algorithm != Algorithm::concurrency &&
      plan.policy->id != 0) {
    refuse(decision, Verdict::bad_request, kNoPermits);
    plan.policy = nullptr;
  }
  return plan;
}

// Its upper 30 bits are the mark; the others prove that this server gave it for this key and cost,
// and that the key has not been RESET since.
std::uint64_t Worker::Impl::grant_id(KeyHash hash, Mark mark, std::uint32_t cost,
                                     std::uint32_t resets) const noexcept {
  std::array<std::byte, 20> bytes;
  std::memcpy(bytes.data(), &hash.low, 8);
  std::memcpy(bytes.data() + 8, &mark, 4);
  std::memcpy(bytes.data() + 12, &cost, 4);
  std::memcpy(bytes.data() + 16, &resets, 4);
  const std::uint64_t proof = KeyHasher::hash(engine.by_grant, bytes).low >> (64 - kProofBits);
  return std::uint64_t{mark} << kProofBits | proof;
}

// False: refused, and all.layer names the layer that is wrong.
bool Worker::Impl::plan_layers(std::span<const Layer> layers, std::uint8_t priority,
                               LayersDecision& all,
                               std::array<PlannedLayer, kMaxLayers>& plans) noexcept {
  const auto wrong = [&](std::string_view reason) {
    refuse(all.decision, Verdict::bad_request, reason);
    return false;
  };
  if (layers.empty() || layers.size() > kMaxLayers) return wrong("there are 1 to 8 layers");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    all.layer = static_cast<std::uint8_t>(i);
    Request request;
    request.policy = layers[i].policy;
    request.cost = layers[i].cost;
    request.key = layers[i].key;
    request.priority = priority;
    const Plan plan = plan_policy(request, all.decision);
    if (plan.policy == nullptr) return false;
    if (plan.policy->limit.algorithm == Algorithm::concurrency) return wrong(kOnlyPermits);
    for (std::size_t j = 0; j < i && plan.policy->id != 0; ++j) {
      if (plans[j].hash.high == plan.hash.high && plans[j].hash.low == plan.hash.low) {
        return wrong("two layers have the same policy and key");
      }
    }
    plans[i] = {&plan.policy->limit_of(plan.hash), plan.hash, layers[i].cost, plan.policy};
    engine.table.prefetch_slot(plan.hash);
  }
  all.layer = kNoLayer;
  return true;
}

// By a layer that does not bind: what can be charged is, what cannot is let through.
Judgement Worker::Impl::take_unbound(const PlannedLayer& layer, std::uint8_t priority, Ticks now,
                                     bool is_taken, bool& is_shadow, Decision& decision) noexcept {
  Judgement judgement;
  judgement.granted = layer.cost;
  judgement.remaining = layer.limit->most();
  if (layer.policy->enforcement == Enforcement::off) return judgement;
  const Ask ask{.cost = is_taken ? layer.cost : 0, .priority = priority, .partial = false};
  TableStore store = this->store();
  judgement = engine::judge(store, *layer.limit, engine.epoch, layer.hash, ask, now,
                            is_taken ? Mode::take : Mode::peek);
  if (judgement.verdict == Verdict::admitted) return judgement;
  judgement.verdict = Verdict::admitted;
  judgement.granted = layer.cost;
  judgement.wait = 0;
  is_shadow = true;
  decision.info |= kInfoShadow;
  return judgement;
}

LayersJudgement Worker::Impl::judge_layers(std::span<const PlannedLayer> layers,
                                           std::uint8_t priority, Ticks now,
                                           Decision& decision) noexcept {
  std::array<PlannedLayer, kMaxLayers> binding;
  std::array<std::uint8_t, kMaxLayers> place{};
  std::size_t count = 0;
  for (std::uint8_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].policy->is_enforced_for(layers[i].hash)) continue;
    place[count] = i;
    binding[count++] = layers[i];
  }
  const std::span<const PlannedLayer> bound(binding.data(), count);
  TableStore store = this->store();
  LayersJudgement judged = take_layers(store, engine.epoch, bound, priority, now);
  bool is_lowered = false;
  for (std::size_t i = 0; judged.refusing != kNoLayer && i < count; ++i) {
    is_lowered |= lower_stale(*binding[i].policy, binding[i].hash,
                              ns_rounded_up(judged.layers[i].reset), now);
  }
  if (is_lowered) {
    judged = take_layers(store, engine.epoch, bound, priority, clock.fresh(now));
  }
  LayersJudgement all;
  for (std::size_t i = 0; i < count; ++i) all.layers[place[i]] = judged.layers[i];
  if (judged.refusing != kNoLayer) all.refusing = place[judged.refusing];
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].policy->is_enforced_for(layers[i].hash)) continue;
    all.layers[i] = take_unbound(layers[i], priority, now, judged.refusing == kNoLayer,
                                 all.shadows[i], decision);
  }
  return all;
}

void Worker::take_all(std::span<const Layer> layers, std::uint8_t priority, Ticks now,
                      LayersDecision& decision) noexcept {
  decision = {};
  impl_->load_policies();
  std::array<PlannedLayer, kMaxLayers> plans;
  if (!impl_->plan_layers(layers, priority, decision, plans)) return;
  const std::span<const PlannedLayer> planned(plans.data(), layers.size());
  const LayersJudgement judged =
      impl_->judge_layers(planned, priority, usable_now(now), decision.decision);
  summarize(decision, planned, judged);
  impl_->count(planned, judged);
}

// A refusal counts under the layer that refused, an admission under each.
void Worker::Impl::count(std::span<const PlannedLayer> layers,
                         const LayersJudgement& judged) noexcept {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (judged.refusing != kNoLayer && judged.refusing != i) continue;
    Decision one;
    one.slot = layers[i].policy->slot;
    one.verdict = judged.layers[i].verdict;
    one.granted = judged.layers[i].granted;
    one.info = judged.shadows[i] ? kInfoShadow : 0;
    counts->add(one);
  }
}

void Worker::take_to_settle(const Request& request, Ticks now, Decision& decision,
                            Receipt& receipt) noexcept {
  impl_->load_policies();
  const Plan plan = impl_->plan_policy(request, decision);
  if (plan.policy == nullptr) return;
  const Policy& policy = *plan.policy;
  if (policy.limit.algorithm == Algorithm::concurrency) {
    return refuse(decision, Verdict::bad_request, kOnlyPermits);
  }
  const Limit& limit = policy.limit_of(plan.hash);
  receipt = {};
  receipt.policy = request.policy;
  receipt.policy_version = decision.policy_version;
  receipt.key = plan.hash;
  if (policy.enforcement == Enforcement::off) {
    admit_freely(decision, limit, request.cost);
    return impl_->counts->add(decision);
  }
  receipt.resets = impl_->engine.resets.finished(plan.hash);
  now = usable_now(now);
  Judgement judgement = impl_->judge(plan, ask_of(request), now, Mode::take);
  answer(decision, limit, judgement);
  if (judgement.granted == 0 && impl_->lower_stale(policy, plan.hash, decision.reset_ns, now)) {
    judgement = impl_->judge(plan, ask_of(request), impl_->clock.fresh(now), Mode::take);
    answer(decision, limit, judgement);
  }
  if (!policy.is_enforced_for(plan.hash)) pardon(decision, request.cost);
  impl_->counts->add(decision);
  receipt.entry = judgement.entry;
  receipt.at = judgement.at;
  receipt.tokens = judgement.granted;  // of what is let through uncounted: none
  receipt.mark = judgement.mark;
}

void Worker::settle(const Request& request, const Receipt& receipt, Ticks now,
                    Decision& decision) noexcept {
  Request checked = request;
  checked.action = Action::peek;  // of cost 0 is fine: nothing was used
  impl_->load_policies();
  const Plan plan = impl_->plan_policy(checked, decision);
  if (plan.policy == nullptr) return;
  const bool is_same = receipt.policy == request.policy && receipt.key.high == plan.hash.high &&
                       receipt.key.low == plan.hash.low;
  if (!is_same || receipt.policy_version != decision.policy_version) {
    return refuse(decision, Verdict::bad_request,
                  is_same ? "the policy has changed since: nothing is settled"
                          : "the grant was for another policy or key");
  }
  const Limit& limit = plan.policy->limit_of(plan.hash);
  if (plan.policy->enforcement == Enforcement::off) {
    return admit_freely(decision, limit, request.cost);
  }
  TableStore store = impl_->store();
  answer(decision, limit,
         engine::settle(store, limit, impl_->engine.epoch, plan.hash, receipt, request.cost,
                        usable_now(now)));
}

std::uint64_t Worker::lease(const Request& request, Ticks now, Decision& decision,
                            Receipt& receipt) noexcept {
  impl_->load_policies();
  const Plan plan = impl_->plan_policy(request, decision);
  if (plan.policy == nullptr) return 0;
  const std::uint64_t ttl_ns = impl_->lease(plan, request, usable_now(now), decision, receipt);
  // Where none was given a take is what counts.
  if (decision.granted != 0 || decision.verdict != Verdict::admitted) impl_->counts->add(decision);
  return ttl_ns;
}

std::uint64_t Worker::Impl::lease(const Plan& plan, const Request& request, Ticks now,
                                  Decision& decision, Receipt& receipt) noexcept {
  const Policy& policy = *plan.policy;
  const Limit& limit = policy.limit_of(plan.hash);
  if (limit.algorithm == Algorithm::concurrency) {
    refuse(decision, Verdict::bad_request, kOnlyPermits);
    return 0;
  }
  // Who is never refused needs no lease: takes are counted, or not, one by one.
  if (policy.enforcement == Enforcement::off) {
    admit_freely(decision, limit, 0);
    return 0;
  }
  const std::uint32_t resets = engine.resets.finished(plan.hash);
  Ask ask{.cost = 0, .priority = request.priority, .partial = false};
  Judgement judgement = judge(plan, ask, now, Mode::peek);
  const std::uint64_t left = judgement.remaining;
  if (left == 0) {  // refused as one token is
    ask.cost = 1;
    judgement = judge(plan, ask, now, Mode::peek);
    judgement.granted = 0;
  }
  answer(decision, limit, judgement);
  if (left == 0 && lower_stale(policy, plan.hash, decision.reset_ns, now)) {
    judgement = judge(plan, ask, clock.fresh(now), Mode::peek);
    judgement.granted = 0;
    answer(decision, limit, judgement);
  }
  if (!policy.is_enforced_for(plan.hash)) {
    pardon(decision, 0);
    return 0;
  }
  const auto most = static_cast<std::uint32_t>(left * limit.lease.share_percent / 100);
  ask.cost = std::min(request.cost, most);
  if (limit.lease.ttl_ns == 0 || ask.cost < limit.lease.least) return limit.lease.ttl_ns;
  judgement = judge(plan, ask, now, Mode::take);
  // Others may have been faster: nothing to lease, and perhaps still something to take.
  const bool is_lost = judgement.verdict != Verdict::admitted;
  if (is_lost && judgement.verdict != Verdict::table_full) return limit.lease.ttl_ns;
  answer(decision, limit, judgement);
  if (is_lost) return 0;
  receipt = receipt_of(judgement, request, plan.hash, resets, decision.policy_version);
  return limit.lease.ttl_ns;
}

void Worker::give_back(const Request& request, const Receipt& receipt, Ticks now,
                       Decision& decision) noexcept {
  if (request.cost > receipt.tokens) {
    decision = {};
    return refuse(decision, Verdict::bad_request, "more is given back than the lease brought");
  }
  Request rest = request;
  rest.cost = receipt.tokens - request.cost;
  settle(rest, receipt, now, decision);
  if (decision.verdict == Verdict::admitted) decision.granted = receipt.tokens - decision.granted;
}

void Worker::acquire(const Request& request, Ticks now, Decision& decision, Grant& grant) noexcept {
  const Plan plan = impl_->plan_permit(request, decision);
  if (plan.policy == nullptr) return;
  const Limit& limit = plan.policy->limit_of(plan.hash);
  grant = {0, std::uint64_t{limit.rule.seconds} * 1'000'000'000};
  if (plan.policy->enforcement == Enforcement::off) {
    admit_freely(decision, limit, request.cost);
    return impl_->counts->add(decision);
  }
  const std::uint32_t resets = impl_->engine.resets.finished(plan.hash);
  const Judgement judgement = impl_->judge(plan, ask_of(request), usable_now(now), Mode::take);
  answer(decision, limit, judgement);
  // What is let through uncounted has the id 0, which gives nothing back.
  if (!plan.policy->is_enforced_for(plan.hash)) pardon(decision, request.cost);
  impl_->counts->add(decision);
  if (judgement.verdict == Verdict::admitted) {
    grant.id = impl_->grant_id(plan.hash, judgement.mark, judgement.granted, resets);
  }
}

void Worker::renew(const Request& request, Ticks now, Decision& decision, Grant& grant) noexcept {
  const Plan plan = impl_->plan_permit(request, decision);
  if (plan.policy == nullptr) return;
  const Limit& limit = plan.policy->limit_of(plan.hash);
  const Mark mark = mark_of_grant(grant.id);
  RenewedPermit renewed;
  now = usable_now(now);
  std::uint32_t resets = 0;
  if (const ResetFence::Refund refund(impl_->engine.resets, plan.hash);
      grant.id == impl_->grant_id(plan.hash, mark, request.cost, refund.resets())) {
    resets = refund.resets();
    TableStore store = impl_->store();
    renewed =
        renew_permit(store, limit.rule, impl_->engine.epoch, plan.hash, mark, request.cost, now);
  }
  const Ask look{.cost = 0, .priority = request.priority, .partial = false};
  Judgement judgement = impl_->judge(plan, look, now, Mode::peek);
  if (renewed.fate == PermitFate::kept) {
    judgement.granted = request.cost;
    grant = {impl_->grant_id(plan.hash, renewed.mark, request.cost, resets),
             std::uint64_t{limit.rule.seconds} * 1'000'000'000};
  } else {
    // What is left is told as it is; the wait is that of whoever acquires instead.
    Ask anew = ask_of(request);
    anew.partial = false;
    const Judgement acquired = impl_->judge(plan, anew, now, Mode::peek);
    judgement.verdict = renewed.fate == PermitFate::full     ? Verdict::table_full
                        : acquired.verdict == Verdict::never ? Verdict::never
                                                             : Verdict::denied;
    judgement.wait = acquired.verdict == Verdict::admitted ? 0 : acquired.wait;
  }
  answer(decision, limit, judgement);
  if (!plan.policy->is_enforced_for(plan.hash)) pardon(decision, request.cost);
}

void Worker::release(const Request& request, std::uint64_t grant, Ticks now,
                     Decision& decision) noexcept {
  const Plan plan = impl_->plan_permit(request, decision);
  if (plan.policy == nullptr) return;
  const Limit& limit = plan.policy->limit_of(plan.hash);
  const Mark mark = mark_of_grant(grant);
  bool is_back = false;
  now = usable_now(now);
  if (const ResetFence::Refund refund(impl_->engine.resets, plan.hash);
      grant == impl_->grant_id(plan.hash, mark, request.cost, refund.resets())) {
    TableStore store = impl_->store();
    is_back =
        release_permit(store, limit.rule, impl_->engine.epoch, plan.hash, mark, request.cost, now);
  }
  const Ask look{.cost = 0, .priority = request.priority, .partial = false};
  Judgement judgement = impl_->judge(plan, look, now, Mode::peek);
  judgement.granted = is_back ? request.cost : 0;
  answer(decision, limit, judgement);
}

}  // namespace pail::engine
