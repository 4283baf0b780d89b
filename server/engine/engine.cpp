// The life of a decision: plan (check, find the limit), hash, prefetch, execute (one update of one
// word), answer.

#include "server/engine/engine.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <stdexcept>

#include "server/engine/worker_impl.hpp"

namespace pail::engine {
namespace {

// What a batch is made of has external linkage: where it is not told to be inline, the compiler
// calls it, for 16% more instructions a decision.

// What RESET of a key without a policy answers by: it has no limit to tell about.
constexpr TokenBucket kNoLimit{};

void tell_state(Decision& decision, const TokenBucket& limit, std::uint8_t priority, Word word,
                Ticks now) noexcept {
  decision.remaining = remaining(limit, word, now, priority);
  decision.reset_ns = ns_rounded_up(reset_after(word, now));
}

[[gnu::always_inline]] inline void answer(Decision& decision, const TokenBucket& limit,
                                          const Ask& ask, const Step& step,
                                          const Seen& seen) noexcept {
  const bool admitted = step.verdict == Verdict::admitted;
  decision.verdict = step.verdict;
  decision.granted = step.granted;
  decision.wait_ns = admitted ? 0 : ns_rounded_up(retry_after(limit, seen.word, seen.now, ask));
  tell_state(decision, limit, ask.priority, admitted ? step.next : seen.word, seen.now);
}

void answer_never(Decision& decision, const TokenBucket& limit, const Ask& ask,
                  const Seen& seen) noexcept {
  decision.verdict = Verdict::never;
  decision.wait_ns = kWaitForever;
  tell_state(decision, limit, ask.priority, seen.word, seen.now);
}

bool is_refusal(const Decision& decision) noexcept {
  return decision.verdict == Verdict::denied || decision.verdict == Verdict::shed;
}

// Whether what was refused at `now` would not be at the later moment `fresh`.
bool would_turn(const Decision& decision, Ticks now, Ticks fresh) noexcept {
  return is_refusal(decision) && decision.wait_ns <= ns_rounded_up(fresh - now);
}

}  // namespace

void answer(Decision& decision, const Limit& limit, const Judgement& judgement) noexcept {
  decision.verdict = judgement.verdict;
  decision.granted = judgement.granted;
  decision.remaining = judgement.remaining;
  decision.limit = limit.most();
  decision.wait_ns = judgement.verdict == Verdict::never        ? kWaitForever
                     : judgement.verdict == Verdict::table_full ? kTableFullRetryNs
                                                                : ns_rounded_up(judgement.wait);
  decision.reset_ns = ns_rounded_up(judgement.reset);
}

void admit_freely(Decision& decision, const Limit& limit, std::uint32_t cost) noexcept {
  decision.verdict = Verdict::admitted;
  decision.granted = cost;
  decision.limit = limit.most();
  decision.remaining = limit.most();
}

void pardon(Decision& decision, std::uint32_t cost) noexcept {
  if (decision.verdict == Verdict::admitted) return;
  decision.verdict = Verdict::admitted;
  decision.granted = cost;
  decision.wait_ns = 0;
  decision.info |= kInfoShadow;
}

[[gnu::always_inline]] inline Plan Worker::Impl::plan(const Request& request, Decision& decision,
                                                      SipMessage& identity) noexcept {
  decision = {};
  if (const std::string_view fault = find_fault(request); !fault.empty()) {
    refuse(decision, Verdict::bad_request, fault);
    return {};
  }
  Plan plan;
  const KeyHasher::Prefix* prefix = &engine.by_key;
  if (request.has_inline_rate) {
    const auto limit = memo.find_or_make(request.inline_rate);
    if (!limit) {
      refuse(decision, Verdict::bad_request, text(limit.error()));
      return {};
    }
    plan.limit = *limit;
  } else if (const Policy* policy = find_policy(request.policy)) {
    plan.limit = &policy->limit.queue.bucket;
    if (!policy->is_plain) [[unlikely]]
      plan.policy = policy;
    prefix = &policy->prefix;
    decision.policy_version = policy->version;
    decision.slot = request.action == Action::take ? policy->slot : kSlotOfNobody;
  } else if (request.policy != 0) {
    refuse(decision, Verdict::unknown_policy, "there is no policy of this id");
    return {};
  } else if (request.action == Action::reset) {
    plan.limit = &kNoLimit;
  } else {
    refuse(decision, Verdict::bad_request, "there is neither a policy nor an inline limit");
    return {};
  }
  decision.limit = plan.limit->burst;
  identity = {prefix, request.key};
  return plan;
}

Seen Worker::Impl::look(const Plan& plan, Ticks now) noexcept {
  Look look;
  engine.table.update(participant, plan.hash, Access::find, now, look);
  return look.seen;
}

// Nothing was charged, and nothing is known about the key but that it is new.
void Worker::Impl::answer_full(const Ask& ask, Decision& decision) const noexcept {
  if (engine.on_full == OnFull::admit) {
    decision.verdict = Verdict::admitted;
    decision.granted = ask.cost;
    decision.remaining = 0;
    decision.wait_ns = 0;
    return;
  }
  decision.verdict = Verdict::table_full;
  decision.granted = 0;
  decision.remaining = 0;
  decision.wait_ns = kTableFullRetryNs;
}

[[gnu::always_inline]] inline void Worker::Impl::take_from(const Plan& plan, const Ask& ask,
                                                           Ticks now, Decision& decision) noexcept {
  Take take{plan.limit, ask};
  if (!engine.table.update_near(plan.hash, now, take)) [[unlikely]]
    return take_from_afar(plan, ask, now, decision);
  answer(decision, *plan.limit, ask, take.step, take.seen);
}

[[gnu::noinline]] void Worker::Impl::take_from_afar(const Plan& plan, const Ask& ask, Ticks now,
                                                    Decision& decision) noexcept {
  Take take{plan.limit, ask};
  const Outcome outcome = engine.table.update(participant, plan.hash, Access::insert, now, take);
  if (outcome == Outcome::full) return answer_full(ask, decision);
  answer(decision, *plan.limit, ask, take.step, take.seen);
}

// What RESET does to one entry, inside the fence; the time that it did it at.
Ticks Worker::Impl::reset_word(KeyHash hash, Ticks now) noexcept {
  Ticks seen_at = now;
  engine.table.update(participant, hash, Access::find, now,
                      [&](Word word, Ticks at) noexcept -> std::optional<Word> {
                        seen_at = at;
                        const Word next = reset(word, at);
                        if (next == 0) return std::nullopt;
                        return next;
                      });
  return seen_at;
}

void Worker::Impl::reset_key(const Plan& plan, std::uint8_t priority, Ticks now,
                             Decision& decision) noexcept {
  const ResetFence::Reset fence(engine.resets, plan.hash);
  if (!fence.is_granted()) return refuse(decision, Verdict::busy, {});
  tell_state(decision, *plan.limit, priority, 0, reset_word(plan.hash, now));
}

[[gnu::always_inline]] inline void Worker::Impl::execute(const Request& request, const Plan& plan,
                                                         Ticks now, Decision& decision) noexcept {
  if (plan.policy != nullptr) [[unlikely]]
    return execute_policy(request, plan, now, decision);
  if (request.action == Action::reset) return reset_key(plan, request.priority, now, decision);
  const Ask ask{request.cost, request.priority, request.partial};
  // What can never be admitted must not claim a slot either. Anything else that finds no entry
  // finds a full bucket, and so is admitted and needs the slot.
  if (never_fits(*plan.limit, ask))
    return answer_never(decision, *plan.limit, ask, look(plan, now));
  if (request.action == Action::take) return take_from(plan, ask, now, decision);
  const Seen seen = look(plan, now);
  answer(decision, *plan.limit, ask, take(*plan.limit, seen.word, seen.now, ask), seen);
}

// The stages. What each begins to fetch from memory, the next needs; in between, other groups keep
// the core busy.

// Checks the requests, finds their limits, hashes their keys. Next: their segments' pointers.
[[gnu::always_inline]] inline void Worker::Impl::prepare(Group& group) noexcept {
  const std::size_t size = group.requests.size();
  for (std::size_t i = 0; i < size; ++i) {
    identities[i] = {&engine.by_key, {}};  // of what is answered already: of no use, and no harm
    group.plans[i] = plan(group.requests[i], group.decisions[i], identities[i]);
  }
  KeyHasher::hash_all({identities.data(), size}, hashes.data());
  for (std::size_t i = 0; i < size; ++i) {
    group.plans[i].hash = hashes[i];
    engine.table.prefetch_segment(hashes[i]);
  }
}

// Next: the lines where the keys are at home.
[[gnu::always_inline]] inline void Worker::Impl::approach(const Group& group) noexcept {
  for (std::size_t i = 0; i < group.requests.size(); ++i) {
    engine.table.prefetch_slot(group.plans[i].hash);
  }
}

[[gnu::always_inline]] inline void Worker::Impl::conclude(const Group& group, Ticks now) noexcept {
  for (std::size_t i = 0; i < group.requests.size(); ++i) {
    const Plan& plan = group.plans[i];
    if (plan.limit != nullptr) execute(group.requests[i], plan, now, group.decisions[i]);
  }
  if (clock.read != nullptr && std::ranges::any_of(group.decisions, is_refusal)) {
    decide_again(group, now);
  }
}

// In the order of the requests, whichever group they fall into: two for one key are decided one
// after the other.
void Worker::Impl::decide(std::span<const Request> requests, Ticks now,
                          std::span<Decision> decisions) noexcept {
  const std::size_t count = (requests.size() + kGroup - 1) / kGroup;
  for (std::size_t turn = 0; turn < count + kStages - 1; ++turn) {
    if (turn < count) {
      Group& group = groups[turn % kStages];
      const std::size_t first = turn * kGroup;
      const std::size_t size = std::min(requests.size() - first, kGroup);
      group.requests = requests.subspan(first, size);
      group.decisions = decisions.subspan(first, size);
      prepare(group);
    }
    if (turn >= 1 && turn - 1 < count) approach(groups[(turn - 1) % kStages]);
    if (turn >= 2) conclude(groups[(turn - 2) % kStages], now);
  }
}

// `now` may be older than the reading by which another worker has just taken, and then a token that
// has been there all the time seems to be still on its way. A reading made after the refusals is
// later than that of whoever wrote the words they were made on, so what it refuses as well is
// refused rightly. Whoever is overtaken again and again is refused in the end: it errs against the
// caller, by a turn of a loop.
void Worker::Impl::decide_again(const Group& group, Ticks now) noexcept {
  constexpr int kAttempts = 4;
  const Ticks first_fresh = clock.fresh(now);  // one for the whole group
  for (std::size_t i = 0; i < group.requests.size(); ++i) {
    Decision& decision = group.decisions[i];
    Ticks decided_at = now;
    Ticks fresh = first_fresh;
    for (int n = 0; n < kAttempts && would_turn(decision, decided_at, fresh); ++n) {
      execute(group.requests[i], group.plans[i], fresh, decision);
      decided_at = fresh;
      fresh = clock.fresh(decided_at);
    }
  }
}

// What is not the plain token bucket, from a batch.
[[gnu::noinline]] void Worker::Impl::execute_policy(const Request& request, const Plan& plan,
                                                    Ticks now, Decision& decision) noexcept {
  const Policy& policy = *plan.policy;
  const Limit& limit = policy.limit_of(plan.hash);
  decision.info = &limit != &policy.limit ? kInfoOverride : 0;
  Ask ask = ask_of(request);
  if (request.action == Action::reset) {
    const bool is_pair =
        limit.algorithm == Algorithm::sliding_window || limit.algorithm == Algorithm::concurrency;
    const ResetFence::Reset fence(engine.resets, plan.hash);
    if (!fence.is_granted()) return refuse(decision, Verdict::busy, {});
    reset_word(plan.hash, now);
    if (is_pair) reset_word(paired(plan.hash, true), now);
    ask = {.cost = 0, .priority = request.priority, .partial = false};
  } else if (request.action == Action::take && limit.algorithm == Algorithm::concurrency) {
    return refuse(decision, Verdict::bad_request, kOnlyPermits);
  } else if (policy.enforcement == Enforcement::off) {
    return admit_freely(decision, limit, request.cost);
  }
  const Mode mode = request.action == Action::take ? Mode::take : Mode::peek;
  const Judgement judgement = judge(plan, ask, now, mode);
  answer(decision, limit, judgement);
  if (judgement.verdict == Verdict::table_full) answer_full(ask, decision);
  if (!policy.is_enforced_for(plan.hash)) pardon(decision, request.cost);
}

Worker::Worker(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Worker::~Worker() = default;

void Worker::decide(std::span<const Request> requests, Ticks now,
                    std::span<Decision> decisions) noexcept {
  assert(decisions.size() >= requests.size());
  now = usable_now(now);
  decisions = decisions.first(requests.size());
  impl_->load_policies();
  impl_->decide(requests, now, decisions);
  if (impl_->set->version() > 1) [[unlikely]]
    impl_->look_behind(requests, now, decisions);
  // Only now: what was refused at first may have been decided again.
  for (const Decision& decision : decisions) impl_->counts->add(decision);
}

Upkeep Worker::end_turn(Ticks now) noexcept {
  KeyTable& table = impl_->engine.table;
  const bool is_more_due = table.sweep(impl_->participant, usable_now(now));
  impl_->participant.quiesce();
  impl_->engine.settle_policies();
  if (is_more_due) return Upkeep::now;
  return table.is_empty() ? Upkeep::none : Upkeep::later;
}
void Worker::offline() noexcept {
  impl_->participant.offline();
}
void Worker::online() noexcept {
  impl_->participant.online();
}

Engine::Engine(const Options& options) {
  constexpr std::uint32_t kFirstVersion = 1;
  auto policies = PolicySet::make(options.policies, kFirstVersion, KeyHasher(options.secret),
                                  options.overrides, nullptr, options.unknown_policy);
  if (!policies) throw std::invalid_argument(policies.error().text);
  impl_ = std::make_unique<Impl>(options, std::move(*policies));
}

Engine::~Engine() = default;

TableStats Engine::table_stats() const noexcept {
  return impl_->table.stats();
}

std::unique_ptr<Worker> Engine::enroll(ClockSource clock) {
  return std::unique_ptr<Worker>(new Worker(std::make_unique<Worker::Impl>(*impl_, clock)));
}

}  // namespace pail::engine
