// From a key to where it lives: a 128-bit hash under a secret of this server.
//
// Keys are chosen by attackers (addresses, user names), so the hash is a pseudo-random function
// with 128 secret bits: nobody outside can find keys that share a budget or crowd one segment. The
// identity that is hashed is
//
//     kind (1) | algorithm (1) | zero (2) | policy id (4) | window or ttl (8) | key (the
//     rest)
//
// Every field before the key has a fixed size, so no two identities are the same bytes. A limit
// given in the request has the kind `by_key` and zeros: its identity is the key alone.
//
// Which hash is used is chosen here, once: `KeyHasher`. docs/decisions.md has the reasons and the
// measurement.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "server/engine/secret.hpp"
#include "server/engine/siphash_lanes.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

// Numbers are part of the identity, so they must never be reused.
enum class Algorithm : std::uint8_t {
  token_bucket = 1,
  leaky_bucket = 2,
  fixed_window = 3,
  sliding_window = 4,
  concurrency = 5,
};

struct Identity {
  // `grant`: no key, but what makes the id of a permit hard to make up. `counter`: under no limit.
  enum class Kind : std::uint8_t { by_key = 0, by_policy = 1, grant = 2, counter = 3 };
  Kind kind = Kind::by_key;
  Algorithm algorithm{};
  std::uint32_t policy = 0;
  std::uint64_t window = 0;

  [[nodiscard]] std::array<std::uint64_t, 2> blocks() const noexcept {
    return {std::uint64_t{static_cast<std::uint8_t>(kind)} |
                std::uint64_t{static_cast<std::uint8_t>(algorithm)} << 8 |
                std::uint64_t{policy} << 32,
            window};
  }
};

// SipHash-1-3 with a 128-bit result. A Prefix is the state after the identity's fixed part.
class SipKeyHasher {
 public:
  using Prefix = SipState;

  explicit SipKeyHasher(const HashSecret& secret) noexcept {
    std::memcpy(&key0_, secret.data(), 8);
    std::memcpy(&key1_, secret.data() + 8, 8);
  }

  [[nodiscard]] Prefix prefix(const Identity& identity) const noexcept {
    Prefix state(key0_, key1_);
    for (const std::uint64_t block : identity.blocks()) state.absorb(block);
    return state;
  }

  [[nodiscard]] static KeyHash hash(const Prefix& prefix, std::span<const std::byte> key) noexcept {
    const Hash128 hash = prefix.finish(key);
    return {.high = hash.first, .low = hash.second};
  }

  // The same for each message, the keys of a batch.
  static void hash_all(std::span<const SipMessage> messages, KeyHash* hashes) noexcept {
    std::array<Hash128, kAtOnce> results;
    while (!messages.empty()) {
      const std::size_t size = std::min(messages.size(), kAtOnce);
      finish_all(messages.first(size), results.data());
      for (std::size_t i = 0; i < size; ++i) {
        *hashes++ = {.high = results[i].first, .low = results[i].second};
      }
      messages = messages.subspan(size);
    }
  }

 private:
  static constexpr std::size_t kAtOnce = 16;

  std::uint64_t key0_ = 0;
  std::uint64_t key1_ = 0;
};

using KeyHasher = SipKeyHasher;

}  // namespace pail::engine
