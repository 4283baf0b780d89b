#include "server/engine/siphash_lanes.hpp"

#include <array>
#include <utility>

namespace pail::engine {
namespace {

void finish_one_by_one(std::span<const SipMessage> messages, Hash128* results) noexcept {
  for (const SipMessage& message : messages) *results++ = message.state->finish(message.rest);
}

#if defined(__x86_64__)

// All of this is inlined into a function for each instruction set, which decides what it becomes.
// Vectors never cross a call: how they are passed depends on the instruction set.
#define PAIL_INLINE [[gnu::always_inline]] inline

template <std::size_t kLanes>
struct LaneState {
  using Lanes [[gnu::vector_size(8 * kLanes)]] = std::uint64_t;
  Lanes v0, v1, v2, v3;

  template <int kBits>
  PAIL_INLINE static void rotate(Lanes& lanes) noexcept {
    lanes = (lanes << kBits) | (lanes >> (64 - kBits));
  }
  PAIL_INLINE void round() noexcept {
    v0 += v1;
    v2 += v3;
    rotate<13>(v1);
    rotate<16>(v3);
    v1 ^= v0;
    v3 ^= v2;
    rotate<32>(v0);
    v0 += v3;
    v2 += v1;
    rotate<21>(v3);
    rotate<17>(v1);
    v3 ^= v0;
    v1 ^= v2;
    rotate<32>(v2);
  }
  PAIL_INLINE void absorb(const Lanes& block) noexcept {
    v3 ^= block;
    round();
    v0 ^= block;
  }
};

// Messages with `blocks` whole blocks each, one a lane.
template <std::size_t... kLane>
PAIL_INLINE void finish_in_lanes(const SipMessage* messages, std::size_t blocks, Hash128* results,
                                 std::index_sequence<kLane...>) noexcept {
  using State = LaneState<sizeof...(kLane)>;
  using Lanes = typename State::Lanes;
  State state{
      Lanes{messages[kLane].state->words().v0...}, Lanes{messages[kLane].state->words().v1...},
      Lanes{messages[kLane].state->words().v2...}, Lanes{messages[kLane].state->words().v3...}};
  for (std::size_t block = 0; block < blocks; ++block) {
    state.absorb(Lanes{SipState::load(messages[kLane].rest.data() + 8 * block, 8)...});
  }
  state.absorb(Lanes{messages[kLane].state->last_block(messages[kLane].rest)...});
  state.v2 ^= SipState::kFirstMark;
  for (int i = 0; i < 3; ++i) state.round();
  const Lanes first = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
  state.v1 ^= SipState::kSecondMark;
  for (int i = 0; i < 3; ++i) state.round();
  const Lanes second = state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
  ((results[kLane] = {first[kLane], second[kLane]}), ...);
}

template <std::size_t kLanes>
PAIL_INLINE void finish_by_lanes(std::span<const SipMessage> messages, Hash128* results) noexcept {
  while (messages.size() >= kLanes) {
    const std::size_t blocks = messages[0].rest.size() / 8;
    bool is_even = true;
    for (std::size_t i = 1; i < kLanes; ++i) is_even &= messages[i].rest.size() / 8 == blocks;
    const std::size_t size = is_even ? kLanes : 1;
    if (is_even) {
      finish_in_lanes(messages.data(), blocks, results, std::make_index_sequence<kLanes>());
    } else {
      finish_one_by_one(messages.first(1), results);
    }
    messages = messages.subspan(size);
    results += size;
  }
  finish_one_by_one(messages, results);
}

#undef PAIL_INLINE

[[gnu::target("avx2")]] void finish_by_avx2(std::span<const SipMessage> messages,
                                            Hash128* results) noexcept {
  finish_by_lanes<4>(messages, results);
}

// Has lanes enough for eight, and rotates in one instruction.
[[gnu::target("avx2,avx512f,avx512vl")]] void finish_by_avx512(std::span<const SipMessage> messages,
                                                               Hash128* results) noexcept {
  finish_by_lanes<8>(messages, results);
}

#endif

struct Ways {
  std::array<FinishAll, 3> list{finish_one_by_one};
  std::size_t size = 1;

  Ways() noexcept {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
      list[size++] = finish_by_avx2;
      if (__builtin_cpu_supports("avx512vl")) list[size++] = finish_by_avx512;
    }
#endif
  }
};

const Ways kWays;
const FinishAll kBest = kWays.list[kWays.size - 1];

}  // namespace

void finish_all(std::span<const SipMessage> messages, Hash128* results) noexcept {
  kBest(messages, results);
}

std::span<const FinishAll> ways_to_finish() noexcept {
  return {kWays.list.data(), kWays.size};
}

}  // namespace pail::engine
