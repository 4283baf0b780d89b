// One decision under a limit of any kind: which arithmetic, on which entries. The plain take from a
// token bucket has a path of its own in engine.cpp; this is the general one.
//
// Generic over the store, as counted_entries.hpp is. Times are in ticks.
#pragma once

#include "server/engine/concurrency.hpp"
#include "server/engine/counted_entries.hpp"
#include "server/engine/limit.hpp"
#include "server/engine/refund.hpp"
#include "server/engine/reset_fence.hpp"
#include "server/engine/sliding_window.hpp"

namespace pail::engine {

struct Judgement {
  Verdict verdict = Verdict::admitted;
  std::uint32_t granted = 0;
  std::uint32_t remaining = 0;  // for the same priority, after the decision
  Ticks wait = 0;               // admitted: hold; refused: retry after; of `never`: nothing
  Ticks reset = 0;
  Ticks at = 0;  // the time that it was decided on
  KeyHash entry;
  Mark mark = 0;
};

// What gives back reads the clock after the word: see refund.hpp. Only inside the fence: see
// reset_fence.hpp, which the store offers as fence().
template <class Store>
std::uint32_t give_back_fenced(Store& store, const Limit& limit, const Receipt& receipt,
                               std::uint32_t tokens, Ticks now) noexcept {
  if (!limit.is_bucket()) {
    return uncount(store, receipt.entry, receipt.mark, tokens, now) ? tokens : 0;
  }
  const TokenBucket& bucket = limit.queue.bucket;
  std::uint32_t given = 0;
  store.update(receipt.entry, Access::find, now,
               [&](Word word, Ticks at) noexcept -> std::optional<Word> {
                 const Ticks later = store.fresh(at);
                 const Ticks elapsed = later > receipt.at ? later - receipt.at : 0;
                 const Word next = refunded(bucket, word, later, tokens, elapsed);
                 given = next != 0 ? tokens_given_back(bucket, word, next) : 0;
                 if (next == 0) return std::nullopt;
                 return next;
               });
  return given;
}

// Gives nothing if the key may have been RESET since.
template <class Store>
[[nodiscard]] std::uint32_t give_back(Store& store, const Limit& limit, const Receipt& receipt,
                                      std::uint32_t tokens, Ticks now) noexcept {
  const ResetFence::Refund refund(store.fence(), receipt.entry);
  if (refund.resets() != receipt.resets) return 0;
  return give_back_fenced(store, limit, receipt, tokens, now);
}

namespace detail {

template <class Store>
[[nodiscard]] Judgement judge_bucket(Store& store, const LeakyBucket& limit, KeyHash hash,
                                     const Ask& ask, Ticks now, Mode mode) noexcept {
  Judgement judgement;
  judgement.entry = hash;
  Word after = 0;
  const Access access = mode == Mode::take ? Access::insert : Access::find;
  const Outcome outcome =
      store.update(hash, access, now, [&](Word word, Ticks at) noexcept -> std::optional<Word> {
        const Step step = take(limit, word, at, ask);
        const bool is_admitted = step.verdict == Verdict::admitted;
        judgement.at = at;
        judgement.verdict = step.verdict;
        judgement.granted = step.granted;
        judgement.wait =
            is_admitted ? hold(limit, step.next, at) : retry_after(limit, word, at, ask);
        after = is_admitted ? step.next : word;
        if (mode == Mode::peek || step.granted == 0) return std::nullopt;
        return step.next;
      });
  if (outcome == Outcome::full) {
    judgement = {};
    judgement.verdict = Verdict::table_full;
    return judgement;
  }
  if (ask.cost == 0) judgement.wait = 0;  // a look holds nobody
  judgement.remaining = remaining(limit.bucket, after, judgement.at, ask.priority);
  judgement.reset = reset_after(after, judgement.at);
  return judgement;
}

template <class Use>
[[nodiscard]] Judgement judgement_of(const CountedAnswer<Use>& answer, const CountedLimit& limit,
                                     const Ask& ask) noexcept {
  Judgement judgement;
  if (answer.is_full) {
    judgement.verdict = Verdict::table_full;
    return judgement;
  }
  judgement.verdict = answer.step.verdict;
  judgement.granted = answer.step.granted;
  judgement.remaining = room(answer.use, limit.most_for(ask.priority));
  judgement.wait = answer.wait;
  judgement.reset = reset_after(answer.use);
  judgement.at = answer.at;
  judgement.entry = answer.entry;
  judgement.mark = answer.mark;
  return judgement;
}

template <class Store>
[[nodiscard]] Judgement judge_fitting(Store& store, const Limit& limit, const UtcEpoch& epoch,
                                      KeyHash hash, const Ask& ask, Ticks now, Mode mode) noexcept {
  switch (limit.algorithm) {
    case Algorithm::token_bucket:
    case Algorithm::leaky_bucket:
      return judge_bucket(store, limit.queue, hash, ask, now, mode);
    case Algorithm::fixed_window:
      return judgement_of(
          decide_fixed(store, limit.counted, limit.rule, epoch, hash, ask, now, mode),
          limit.counted, ask);
    case Algorithm::sliding_window:
      return judgement_of(
          decide_paired<SlidingUse>(store, limit.counted, limit.rule, epoch, hash, ask, now, mode),
          limit.counted, ask);
    case Algorithm::concurrency:
      return judgement_of(
          decide_paired<PermitUse>(store, limit.counted, limit.rule, epoch, hash, ask, now, mode),
          limit.counted, ask);
  }
  return {};
}

}  // namespace detail

template <class Store>
[[nodiscard]] Judgement judge(Store& store, const Limit& limit, const UtcEpoch& epoch, KeyHash hash,
                              const Ask& ask, Ticks now, Mode mode) noexcept {
  const bool is_never =
      limit.is_bucket() ? never_fits(limit.queue.bucket, ask) : never_fits(limit.counted, ask);
  if (!is_never) return detail::judge_fitting(store, limit, epoch, hash, ask, now, mode);
  const Ask look{.cost = 0, .priority = ask.priority, .partial = false};
  Judgement judgement = detail::judge_fitting(store, limit, epoch, hash, look, now, Mode::peek);
  judgement.verdict = Verdict::never;
  return judgement;
}

// Corrects a charge to `actual` tokens: gives back what was too much, or charges what was too
// little, as far as max_debt goes. `granted` is what is charged now in all, in whole tokens: what
// the bucket has refilled of a token does not count.
template <class Store>
[[nodiscard]] Judgement settle(Store& store, const Limit& limit, const UtcEpoch& epoch,
                               KeyHash hash, const Receipt& receipt, std::uint32_t actual,
                               Ticks now) noexcept {
  std::uint32_t charged = receipt.tokens;
  if (actual < charged) {
    charged -= give_back(store, limit, receipt, charged - actual, now);
  } else if (actual > charged) {
    const Ask more{.cost = actual - charged, .priority = 0, .partial = true};
    charged += judge(store, overdrawable(limit), epoch, hash, more, now, Mode::take).granted;
  }
  const Ask look{.cost = 0, .priority = 0, .partial = false};
  Judgement judgement = judge(store, limit, epoch, hash, look, now, Mode::peek);
  judgement.granted = charged;
  return judgement;
}

}  // namespace pail::engine
