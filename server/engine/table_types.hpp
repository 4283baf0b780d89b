// The table's vocabulary: plain values that its callers and its parts share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "server/engine/ticks.hpp"

namespace pail::engine {

// Where a key lives and who it is: 128 bits under a secret of this server. `high` chooses the
// segment; `low` is the fingerprint, from which the home line in an array follows, so that an entry
// can move to another array without its key.
struct KeyHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};

// `find` never makes an entry: for what only looks or only lowers (PEEK, RESET, a refund).
enum class Access : std::uint8_t { find, insert };

// `full`: the key has no entry and there is no memory for one. Never for a key that has one.
enum class Outcome : std::uint8_t { unchanged, written, full };

struct TableOptions {
  // 2^bits segments. 16 keeps an array of a table of 50 M keys at 24 KiB, so that nothing the table
  // does takes longer than copying that. Fewer only in tests.
  unsigned segment_bits = 16;
  // Resident bytes of all arrays. At the limit new keys are refused; live ones stay.
  std::size_t memory_limit_bytes = std::numeric_limits<std::size_t>::max();
};

// Sums over all threads since the start; each is exact once the threads rest.
struct TableStats {
  std::uint64_t entries = 0;         // slots that belong to a key, idle ones included
  std::uint64_t arrays = 0;          // allocated: current, being filled, or retired
  std::uint64_t retired_arrays = 0;  // of them: waiting until no thread can be reading them
  std::uint64_t resident_bytes = 0;  // pages that arrays occupy
  std::uint64_t memory_limit_bytes = 0;
  std::uint64_t migrations_started = 0;
  std::uint64_t migrations_finished = 0;
  std::uint64_t refused_keys = 0;  // outcomes `full`
};

// Why an array is wanted, and so how far into the memory limit it may go.
enum class Need : std::uint8_t {
  growth,   // room for new keys: stops short of the limit by the reserve
  reclaim,  // a migration that ends with no more bytes than it began: up to the limit
  copy,     // entries under way that must land somewhere: never refused by the limit
};

}  // namespace pail::engine
