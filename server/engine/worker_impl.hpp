// What an Engine and a Worker are made of: for engine.cpp (batches of takes) and operations.cpp
// (what is decided one by one) only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "server/engine/engine.hpp"
#include "server/engine/judge.hpp"
#include "server/engine/keyed_hash.hpp"
#include "server/engine/layers.hpp"
#include "server/engine/policy_book.hpp"
#include "server/engine/policy_counters.hpp"
#include "server/engine/rate_memo.hpp"
#include "server/engine/table.hpp"

namespace pail::engine {

using KeyTable = Table<LiveTraits>;

// A request that passed all checks. Borrows the limit for as long as its batch is decided.
struct Plan {
  const TokenBucket* limit = nullptr;  // nothing: already answered
  const Policy* policy = nullptr;      // that is not plain
  KeyHash hash;
};

// As many as are taken through the stages of a decision together: some cache misses under way at
// once, more of them than that a core cannot wait for.
inline constexpr std::size_t kGroup = 16;

// Up to kGroup requests on their way through the stages.
struct Group {
  std::span<const Request> requests;
  std::span<Decision> decisions;
  std::array<Plan, kGroup> plans;
};
// Groups are under way side by side, one in each stage.
inline constexpr std::size_t kStages = 3;
static_assert(kStages * kGroup <= RateMemo::kKept, "a plan borrows its limit from the memo");

// The table as judge.hpp wants it.
struct TableStore {
  KeyTable& table;
  KeyTable::Participant& participant;
  const ClockSource& clock;
  ResetFence& resets;

  template <class Decide>
  Outcome update(KeyHash hash, Access access, Ticks now, Decide&& decide) noexcept {
    return table.update(participant, hash, access, now, std::forward<Decide>(decide));
  }
  [[nodiscard]] Ticks fresh(Ticks at) const noexcept { return clock.fresh(at); }
  [[nodiscard]] ResetFence& fence() const noexcept { return resets; }
};

// The word and the time that the decision which counts was made on.
struct Seen {
  Word word = 0;
  Ticks now = 0;
};

// What the table is given on the way of nearly all: objects, which it can keep in registers.
struct Look {
  Seen seen = {};
  std::optional<Word> operator()(Word word, Ticks now) noexcept {
    seen = {word, now};
    return std::nullopt;
  }
};
struct Take {
  const TokenBucket* limit;
  Ask ask;
  Seen seen = {};
  Step step = {};
  std::optional<Word> operator()(Word word, Ticks now) noexcept {
    seen = {word, now};
    step = take(*limit, word, now, ask);
    if (step.verdict != Verdict::admitted) return std::nullopt;
    return step.next;
  }
};

// As many segments as keep an array of a full table at some 256 KiB, so that replacing one is
// microseconds; but never more than that the pointers to them, which every decision reads, stay in
// the nearest cache: beyond that arrays grow, and they move in bounded steps whatever their size.
[[nodiscard]] constexpr TableOptions table_options(std::size_t memory_limit_bytes) noexcept {
  constexpr std::size_t kArrayBytes = std::size_t{256} << 10;
  constexpr unsigned kLeastBits = 4;
  constexpr unsigned kMostBits = 12;
  const auto bits = static_cast<unsigned>(std::bit_width(memory_limit_bytes / kArrayBytes));
  return {.segment_bits = std::clamp(bits, kLeastBits, kMostBits),
          .memory_limit_bytes = memory_limit_bytes};
}

struct Engine::Impl {
  Impl(const Options& options, PolicySet&& set)
      : hasher(options.secret),
        policies(counted(std::move(set))),
        by_key(hasher.prefix(Identity{})),
        by_grant(hasher.prefix(Identity{.kind = Identity::Kind::grant})),
        by_counter(hasher.prefix(Identity{.kind = Identity::Kind::counter})),
        counter_life(ticks_from_ns(options.counter_life_ns)),
        epoch(UtcEpoch::from_ns(options.utc_epoch_ns)),
        on_full(options.on_full),
        table(table_options(options.memory_limit_bytes)) {}

  [[nodiscard]] PolicySet&& counted(PolicySet&& first) {
    counters.assign(first, 0);
    return std::move(first);
  }
  void settle_policies() noexcept {
    if (policies.has_retired()) [[unlikely]]
      policies.settle([this] { return table.horizon(); });
  }

  const KeyHasher hasher;
  PolicyCounters counters;
  PolicyBook policies;
  const KeyHasher::Prefix by_key;  // of the identity of keys with an inline limit
  const KeyHasher::Prefix by_grant;
  const KeyHasher::Prefix by_counter;
  const Ticks counter_life;
  const UtcEpoch epoch;
  const OnFull on_full;
  KeyTable table;     // shared by all workers
  ResetFence resets;  // likewise
};

struct Worker::Impl {
  Impl(Engine::Impl& the_engine, ClockSource the_clock)
      : engine(the_engine),
        participant(engine.table.enroll()),
        counts(engine.counters),
        clock(the_clock),
        set(&engine.policies.current()) {}

  void decide(std::span<const Request> requests, Ticks now, std::span<Decision> decisions) noexcept;
  void prepare(Group& group) noexcept;
  void approach(const Group& group) noexcept;
  void conclude(const Group& group, Ticks now) noexcept;
  [[gnu::cold]] void decide_again(const Group& group, Ticks now) noexcept;
  [[nodiscard]] Plan plan(const Request& request, Decision& decision,
                          SipMessage& identity) noexcept;
  void execute(const Request& request, const Plan& plan, Ticks now, Decision& decision) noexcept;
  void take_from(const Plan& plan, const Ask& ask, Ticks now, Decision& decision) noexcept;
  void take_from_afar(const Plan& plan, const Ask& ask, Ticks now, Decision& decision) noexcept;
  void answer_full(const Ask& ask, Decision& decision) const noexcept;
  Ticks reset_word(KeyHash hash, Ticks now) noexcept;
  void reset_key(const Plan& plan, std::uint8_t priority, Ticks now, Decision& decision) noexcept;
  [[nodiscard]] Seen look(const Plan& plan, Ticks now) noexcept;

  void execute_policy(const Request& request, const Plan& plan, Ticks now,
                      Decision& decision) noexcept;
  [[nodiscard]] Plan plan_policy(const Request& request, Decision& decision) noexcept;
  [[nodiscard]] Plan plan_permit(const Request& request, Decision& decision) noexcept;
  [[nodiscard]] bool plan_layers(std::span<const Layer> layers, std::uint8_t priority,
                                 LayersDecision& all,
                                 std::array<PlannedLayer, kMaxLayers>& plans) noexcept;
  [[nodiscard]] LayersJudgement judge_layers(std::span<const PlannedLayer> layers,
                                             std::uint8_t priority, Ticks now,
                                             Decision& decision) noexcept;
  [[nodiscard]] Judgement take_unbound(const PlannedLayer& layer, std::uint8_t priority, Ticks now,
                                       bool is_taken, bool& is_shadow, Decision& decision) noexcept;
  void count(std::span<const PlannedLayer> layers, const LayersJudgement& judged) noexcept;
  [[nodiscard]] std::uint64_t lease(const Plan& plan, const Request& request, Ticks now,
                                    Decision& decision, Receipt& receipt) noexcept;
  [[nodiscard]] Judgement judge(const Plan& plan, const Ask& ask, Ticks now, Mode mode) noexcept {
    TableStore store = this->store();
    return engine::judge(store, plan.policy->limit_of(plan.hash), engine.epoch, plan.hash, ask, now,
                         mode);
  }
  // What decides requests for that policy, itself or not. Null: nothing does.
  [[nodiscard, gnu::always_inline]] const Policy* find_policy(std::uint32_t id) noexcept {
    if (const Policy* const found = set->find(id)) [[likely]]
      return found;
    return find_unknown(id);
  }
  [[nodiscard, gnu::cold, gnu::noinline]] const Policy* find_unknown(std::uint32_t id) noexcept;
  void load_policies() noexcept { set = &engine.policies.current(); }
  [[nodiscard]] bool lower_stale(const Policy& policy, KeyHash hash, std::uint64_t reset_ns,
                                 Ticks now) noexcept;
  void look_behind(std::span<const Request> requests, Ticks now,
                   std::span<Decision> decisions) noexcept;
  [[nodiscard]] TableStore store() noexcept {
    return {engine.table, participant, clock, engine.resets};
  }
  [[nodiscard]] std::uint64_t grant_id(KeyHash hash, Mark mark, std::uint32_t cost,
                                       std::uint32_t resets) const noexcept;

  Engine::Impl& engine;
  KeyTable::Participant participant;
  LentSheet counts;
  const ClockSource clock;
  const PolicySet* set;  // of the batch, or of what is decided one by one; loaded for each
  RateMemo memo;
  // Of one batch. Kept, so that nothing has to be cleared for the next.
  std::array<Group, kStages> groups;
  std::array<SipMessage, kGroup> identities;
  std::array<KeyHash, kGroup> hashes;
};

inline void refuse(Decision& decision, Verdict verdict, std::string_view reason) noexcept {
  decision = {};
  decision.verdict = verdict;
  decision.reason = reason;
}

// Empty, or what is wrong with the request whatever its limit may be.
[[nodiscard]] inline std::string_view find_fault(const Request& request) noexcept {
  if (request.key.size() < kMinKeyBytes) return "the key is empty";
  if (request.key.size() > kMaxKeyBytes) return "the key is longer than 1024 bytes";
  if (request.priority >= kPriorities) return "the priority is above 3";
  if (request.cost == 0 && request.action == Action::take) {
    return "a take of cost 0 would never be limited: peek looks without taking";
  }
  return {};
}

void answer(Decision& decision, const Limit& limit, const Judgement& judgement) noexcept;
// By a policy that is off, and by one that is not enforced for the key.
void admit_freely(Decision& decision, const Limit& limit, std::uint32_t cost) noexcept;
void pardon(Decision& decision, std::uint32_t cost) noexcept;

[[nodiscard]] constexpr Ask ask_of(const Request& request) noexcept {
  return {request.cost, request.priority, request.partial};
}

inline constexpr std::string_view kOnlyPermits =
    "a concurrency policy gives permits: ACQUIRE one, and RELEASE it";

}  // namespace pail::engine
