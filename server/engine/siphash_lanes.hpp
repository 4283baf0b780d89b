// Many keys hashed at once: SipHash-1-3-128 on several messages in the lanes of vector registers.
//
// The hash is what a decision spends most of its instructions on, and its rounds cannot be
// shortened, but the messages of a batch are independent. Where the processor has vectors of four
// or eight 64-bit lanes (asked when the program starts), as many keys with the same number of whole
// blocks are hashed for little more than one; all others, and all keys elsewhere, one after the
// other. The results are the same.
#pragma once

#include <cstddef>
#include <span>

#include "server/engine/siphash.hpp"

namespace pail::engine {

using SipState = SipHash128<1, 3>;

// One message: what `state` has absorbed and then `rest`. Borrowed for the call.
struct SipMessage {
  const SipState* state = nullptr;
  std::span<const std::byte> rest;
};

// results[i] = messages[i].state->finish(messages[i].rest); any number of messages.
void finish_all(std::span<const SipMessage> messages, Hash128* results) noexcept;

// The ways to do so that this processor has, the plainest first; the last is what finish_all()
// uses. For tests: all of them must agree.
using FinishAll = void (*)(std::span<const SipMessage>, Hash128*) noexcept;
[[nodiscard]] std::span<const FinishAll> ways_to_finish() noexcept;

}  // namespace pail::engine
