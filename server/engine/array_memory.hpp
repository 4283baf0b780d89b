// Memory for the table's arrays: zeroed blocks of any multiple of 64 bytes, from the kernel and
// back.
//
// Why not malloc: the table promises that memory follows the live keys down as well as up, that a
// limit is kept, and that no thread waits for another. And the kernel is slow at handing out
// memory: measured under a hypervisor, 15 us for a page at first touch and 35 us for one given
// back; a huge page of 2 MiB costs 150 us or more, and 60 to go back. So memory comes and goes in
// chunks of 2 MiB, huge pages where the kernel has them, and what is freed in a chunk is used again
// at once.
//
//   chunk     2 MiB, aligned; a RunMap at its start, then blocks. An arena's, until it is empty:
//             then the pool's (chunk_pool.hpp), which has a few ready for the next to come.
//   arena     a set of chunks and the index of their longest free runs. A block comes from the
//   lowest
//             address where it fits: neighbours that are freed join, and as arrays move (they do,
//             with every migration) they gather in low chunks, so that high ones become empty and
//             go back. Measured by simulation: 28.7 bytes a key over 1 M to 50 M growing keys,
//             where the arrays alone are 24.7; with size classes 29 to 33.
//   mapping   what is over 1 MiB, and whatever finds no arena (see below), gets a mapping of its
//   own.
//
// Thread safety: any thread, any time. Progress: nobody waits. An arena is held for the change of
// its index (a tenth of a microsecond), and a thread that finds it held takes another arena or, all
// held, a mapping; a block whose arena is held goes on that arena's list of returns, which the next
// holder works off. A holder that is descheduled delays nobody.
//
// Ordering: an arena's `held` is taken with acquire and let go with release, and so guards its
// plain fields and its chunks' maps; `returns` is pushed with release and taken with acquire. A
// block's last use happened before its release() (that is the caller's business), and so before its
// next use.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "server/engine/chunk_pool.hpp"
#include "server/engine/run_map.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

class ArrayMemory {
 public:
  static constexpr std::size_t kChunkBytes = ChunkPool::kChunkBytes;
  static constexpr std::size_t kGranuleBytes = 64;

  // Throws std::bad_alloc if not even addresses can be reserved.
  explicit ArrayMemory(const TableOptions& options);
  ~ArrayMemory();  // every block goes with it, but for mappings of their own
  ArrayMemory(const ArrayMemory&) = delete;
  ArrayMemory& operator=(const ArrayMemory&) = delete;

  // Zeros, aligned to 64 bytes; nullptr if the limit or the kernel refuses. `bytes`: a multiple
  // of 64.
  [[nodiscard]] void* allocate(std::size_t bytes, Need need) noexcept;
  void release(void* block, std::size_t bytes) noexcept;

  // Chunks, spare ones too, and mappings: what is resident at most.
  [[nodiscard]] std::size_t resident_bytes() const noexcept { return pool_.resident_bytes(); }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return pool_.limit_bytes(); }
  // Whether new keys would get no further chunk.
  [[nodiscard]] bool at_limit() const noexcept { return pool_.at_limit(); }

 private:
  // As many threads can be in here at once before one has to take a mapping.
  static constexpr std::uint8_t kArenas = 8;
  static constexpr std::uint32_t kMaxRun = RunMap::kGranules / 2;
  // Empty chunks that an arena keeps, so that a block that comes and goes does not take one along.
  static constexpr std::uint32_t kSpareChunks = 1;

  struct Returned {
    Returned* next;
    std::size_t bytes;
  };

  struct alignas(128) Arena {
    std::atomic<std::uint32_t> held{0};
    std::atomic<Returned*> returns{nullptr};
    // Plain: the holder's. A binary tree over all chunks: the longest run below each node; chunk c
    // is leaf chunk_leaves_ + c, and 0 if it is not this arena's.
    std::uint16_t* longest = nullptr;
    std::uint32_t empty_chunks = 0;
  };

  [[nodiscard]] static bool try_hold(Arena& arena) noexcept;
  static void let_go(Arena& arena) noexcept;

  [[nodiscard]] void* take(Arena& arena, std::uint32_t granules, Need need) noexcept;
  void give(Arena& arena, std::byte* block, std::size_t bytes) noexcept;
  void work_off_returns(Arena& arena) noexcept;
  [[nodiscard]] bool open_chunk(Arena& arena, Need need) noexcept;
  void index_chunk(Arena& arena, std::size_t chunk, std::uint32_t longest) noexcept;
  [[nodiscard]] void* map_block(std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t index_bytes() const noexcept {
    return kArenas * 2 * chunk_leaves_ * sizeof(std::uint16_t);
  }
  [[nodiscard]] RunMap& map(std::size_t chunk) const noexcept {
    return *reinterpret_cast<RunMap*>(pool_.address(chunk));
  }

  ChunkPool pool_;
  const std::size_t chunk_leaves_;    // the power of two that holds the pool's chunks
  std::uint16_t* indices_ = nullptr;  // of the arenas, one behind the other
  std::array<Arena, kArenas> arenas_;
};

}  // namespace pail::engine
