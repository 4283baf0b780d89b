// Several limits in one decision: all are charged, or none.
//
//   1. look at every layer. If one refuses, that is the answer, and nothing was written
//   2. take from each in the order of their hashes (queues last: what is behind waiters cannot be
//      given back). If one is refused now, somebody else was faster: give back what was taken
//
// All requests take in the same order, so of two that want the last of the same budgets one wins.
// A thread that is held up between taking and giving back makes others be refused meanwhile; it
// never makes them be admitted. RESETs are held off meanwhile, or what a RESET has forgotten could
// not be told from what must come back: see reset_fence.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <tuple>

#include "server/engine/judge.hpp"

namespace pail::engine {

struct Policy;

// A layer whose limit and key have been found.
struct PlannedLayer {
  const Limit* limit = nullptr;
  KeyHash hash;
  std::uint32_t cost = 1;
  const Policy* policy = nullptr;  // for the caller
};

struct LayersJudgement {
  std::array<Judgement, kMaxLayers> layers{};
  std::uint8_t refusing = kNoLayer;        // the one to wait for longest; `never` above all
  std::array<bool, kMaxLayers> shadows{};  // admitted only because its policy is not enforced
};

namespace detail {

// Which of two refusals tells the caller more.
[[nodiscard]] constexpr bool is_graver(const Judgement& a, const Judgement& b) noexcept {
  const auto rank = [](Verdict verdict) {
    return verdict == Verdict::never ? 2 : verdict == Verdict::table_full ? 1 : 0;
  };
  const int rank_a = rank(a.verdict);
  const int rank_b = rank(b.verdict);
  return rank_a != rank_b ? rank_a > rank_b : a.wait > b.wait;
}

[[nodiscard]] inline std::array<std::uint8_t, kMaxLayers> taking_order(
    std::span<const PlannedLayer> layers) noexcept {
  std::array<std::uint8_t, kMaxLayers> order{};
  for (std::uint8_t i = 0; i < layers.size(); ++i) order[i] = i;
  const auto key = [&](std::uint8_t i) {
    const bool is_queue = layers[i].limit->algorithm == Algorithm::leaky_bucket;
    return std::tuple(is_queue, layers[i].hash.high, layers[i].hash.low);
  };
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(layers.size()),
            [&](std::uint8_t a, std::uint8_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace detail

// At most kMaxLayers, no two of one hash.
template <class Store>
[[nodiscard]] LayersJudgement take_layers(Store& store, const UtcEpoch& epoch,
                                          std::span<const PlannedLayer> layers,
                                          std::uint8_t priority, Ticks now) noexcept {
  const auto judge_layer = [&](std::size_t i, Mode mode) {
    const Ask ask{.cost = layers[i].cost, .priority = priority, .partial = false};
    return judge(store, *layers[i].limit, epoch, layers[i].hash, ask, now, mode);
  };
  LayersJudgement result;
  for (std::uint8_t i = 0; i < layers.size(); ++i) {
    result.layers[i] = judge_layer(i, Mode::peek);
    if (result.layers[i].verdict == Verdict::admitted) continue;
    if (result.refusing == kNoLayer ||
        detail::is_graver(result.layers[i], result.layers[result.refusing])) {
      result.refusing = i;
    }
  }
  // Nothing is charged, so what is told of the other layers is how they are, not how they would be.
  const auto tell_as_they_are = [&] {
    const Ask look{.cost = 0, .priority = priority, .partial = false};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (result.layers[i].verdict != Verdict::admitted) continue;
      result.layers[i] =
          judge(store, *layers[i].limit, epoch, layers[i].hash, look, now, Mode::peek);
    }
  };
  if (result.refusing != kNoLayer) return tell_as_they_are(), result;

  const auto order = detail::taking_order(layers);
  std::array<std::optional<ResetFence::Hold>, kMaxLayers> holds;
  for (std::size_t taken = 0; taken < layers.size(); ++taken) {
    const std::uint8_t i = order[taken];
    const bool may_go_back = taken + 1 < layers.size();  // of the last there is nothing to regret
    const bool is_calm =
        !may_go_back || holds[taken].emplace(store.fence(), layers[i].hash).is_calm();
    if (is_calm) {
      result.layers[i] = judge_layer(i, Mode::take);
      if (result.layers[i].verdict == Verdict::admitted) continue;
    }
    result.refusing = i;
    while (taken-- > 0) {
      const Judgement& judgement = result.layers[order[taken]];
      const Receipt receipt{.entry = judgement.entry,
                            .at = judgement.at,
                            .tokens = judgement.granted,
                            .mark = judgement.mark};
      give_back_fenced(store, *layers[order[taken]].limit, receipt, judgement.granted, now);
    }
    tell_as_they_are();
    if (!is_calm) {  // a RESET that takes long: as good as a lost race
      result.layers[i].verdict = Verdict::denied;
      result.layers[i].wait = 1;
    }
    return result;
  }
  return result;
}

}  // namespace pail::engine
