// What the engine is asked and what it answers: plain values, borrowed keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pail::engine {

inline constexpr std::size_t kMinKeyBytes = 1;
inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::uint8_t kPriorities = 4;  // 0 lowest, the default, to 3
inline constexpr std::uint64_t kWaitForever = ~std::uint64_t{0};
inline constexpr std::size_t kMaxLayers = 8;
inline constexpr std::uint8_t kNoLayer = 255;

enum class Verdict : std::uint8_t {
  admitted,
  denied,      // no budget now: wait_ns says when
  shed,        // the budget that is left is reserved for higher priorities
  never,       // the cost can never fit: permanent
  table_full,  // no room for a new key; nothing was charged
  unknown_policy,
  bad_request,  // `reason` says what is wrong
  busy,         // of RESET only: something is just being given back to the key. Nothing was done
};

enum class Action : std::uint8_t { take, peek, reset };

// A token bucket as people and the wire say it: `count` tokens every `period_ns`, at most `burst`
// at once.
struct Rate {
  std::uint64_t period_ns = 0;
  std::uint32_t count = 0;
  std::uint32_t burst = 0;
  friend bool operator==(const Rate&, const Rate&) = default;
};

struct Request {
  Action action = Action::take;
  std::uint8_t priority = 0;
  bool partial = false;  // be content with less than the cost: as much as there is, at least 1
  bool has_inline_rate = false;
  std::uint32_t policy = 0;  // id of a named policy, where there is no inline rate
  std::uint32_t cost = 1;    // take: at least 1. peek: 0 only looks. reset: ignored
  Rate inline_rate = {};
  std::span<const std::byte> key = {};  // kMinKeyBytes to kMaxKeyBytes, any bytes
};

// Bits of Decision::info.
inline constexpr std::uint8_t kInfoShadow = 1;    // admitted because the policy is not enforced
inline constexpr std::uint8_t kInfoOverride = 2;  // the key has numbers of its own

// A peek is answered as a take of the same cost would be, numbers included, and changes nothing; a
// peek of cost 0 is always admitted and tells the state as it is. A reset makes a key as good as
// new and answers like a peek of cost 0 after it.
struct Decision {
  Verdict verdict = Verdict::admitted;
  std::uint32_t granted = 0;
  std::uint32_t remaining = 0;  // what the same priority could still take, after this decision
  // The burst, or the most in a window or at once; 0 where no limit was found to apply.
  std::uint32_t limit = 0;
  std::uint16_t policy_version = 0;
  std::uint8_t info = 0;         // kInfo...
  std::uint32_t slot = 0;        // the engine's own: where it is counted
  std::uint64_t wait_ns = 0;     // admitted: hold; refused: retry after; never: kWaitForever
  std::uint64_t reset_ns = 0;    // until the key is as good as new
  std::string_view reason = {};  // static text where the verdict is bad_request
};

// One limit of a decision that takes from several.
struct Layer {
  std::uint32_t policy = 0;
  std::uint32_t cost = 1;  // at least 1
  std::span<const std::byte> key = {};
};

struct LayerState {
  std::uint32_t remaining = 0;
  std::uint32_t limit = 0;
  std::uint64_t reset_ns = 0;
};

// All layers together: `remaining` and `limit` of the tightest one, the longest wait and reset.
// `granted` is the sum, or 2^32 - 1 where that is more.
struct LayersDecision {
  Decision decision;
  std::uint8_t layer = kNoLayer;  // which one refused, or is wrong
  std::array<LayerState, kMaxLayers> layers{};
};

// A permit of a concurrency policy. The id names the round that counts it and is hard to make up.
struct Grant {
  std::uint64_t id = 0;
  std::uint64_t ttl_ns = 0;
};

}  // namespace pail::engine
