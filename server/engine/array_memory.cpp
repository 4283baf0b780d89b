#include "server/engine/array_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>
#include <optional>

#include "server/engine/zero_pages.hpp"

namespace pail::engine {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMapGranules = (sizeof(RunMap) + 63) / 64;

static_assert(std::size_t{RunMap::kGranules} * ArrayMemory::kGranuleBytes ==
              ArrayMemory::kChunkBytes);

constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

ArrayMemory::ArrayMemory(const TableOptions& options)
    : pool_(options.memory_limit_bytes), chunk_leaves_(std::bit_ceil(pool_.chunks())) {
  indices_ = reinterpret_cast<std::uint16_t*>(map_zeros(index_bytes()));
  if (indices_ == nullptr) throw std::bad_alloc();
  for (std::size_t i = 0; i < kArenas; ++i) arenas_[i].longest = indices_ + i * 2 * chunk_leaves_;
}

ArrayMemory::~ArrayMemory() {
  munmap(indices_, index_bytes());
}

bool ArrayMemory::try_hold(Arena& arena) noexcept {
  return arena.held.load(std::memory_order_relaxed) == 0 &&
         arena.held.exchange(1, std::memory_order_acquire) == 0;
}

void ArrayMemory::let_go(Arena& arena) noexcept {
  arena.held.store(0, std::memory_order_release);
}

void* ArrayMemory::allocate(std::size_t bytes, Need need) noexcept {
  assert(bytes % kGranuleBytes == 0 && bytes != 0);
  const std::size_t granules = bytes / kGranuleBytes;
  bool all_held = true;
  for (std::size_t i = 0; i < kArenas && granules <= kMaxRun; ++i) {
    Arena& arena = arenas_[i];
    if (!try_hold(arena)) continue;
    all_held = false;
    work_off_returns(arena);
    void* block = take(arena, static_cast<std::uint32_t>(granules), need);
    let_go(arena);
    if (block == nullptr) continue;
    std::memset(block, 0, bytes);
    return block;
  }
  if (granules <= kMaxRun && !all_held && need != Need::copy) return nullptr;
  if (!pool_.reserve_resident(round_up(bytes, kPageBytes), need)) return nullptr;
  return map_block(bytes);
}

void* ArrayMemory::take(Arena& arena, std::uint32_t granules, Need need) noexcept {
  if (arena.longest[1] < granules && !open_chunk(arena, need)) return nullptr;
  std::size_t node = 1;
  while (node < chunk_leaves_) {
    node *= 2;
    if (arena.longest[node] < granules) ++node;
  }
  const std::size_t chunk = node - chunk_leaves_;
  RunMap& runs = map(chunk);
  if (runs.taken() == kMapGranules) --arena.empty_chunks;
  const std::uint32_t first = runs.take(granules);
  index_chunk(arena, chunk, runs.longest_free());
  return pool_.address(chunk) + std::size_t{first} * kGranuleBytes;
}

// The longest run of a chunk has changed: tell the nodes above it.
void ArrayMemory::index_chunk(Arena& arena, std::size_t chunk, std::uint32_t longest) noexcept {
  std::size_t node = chunk_leaves_ + chunk;
  arena.longest[node] = static_cast<std::uint16_t>(longest);
  for (node /= 2; node != 0; node /= 2) {
    const std::uint16_t most = std::max(arena.longest[2 * node], arena.longest[2 * node + 1]);
    if (arena.longest[node] == most) return;
    arena.longest[node] = most;
  }
}

bool ArrayMemory::open_chunk(Arena& arena, Need need) noexcept {
  const auto me = static_cast<std::uint8_t>(&arena - arenas_.data());
  const std::optional<std::size_t> chunk = pool_.open(me, need);
  if (!chunk) return false;
  const RunMap& runs = *new (pool_.address(*chunk)) RunMap(kMapGranules);
  ++arena.empty_chunks;
  index_chunk(arena, *chunk, runs.longest_free());
  return true;
}

void ArrayMemory::release(void* block, std::size_t bytes) noexcept {
  if (!pool_.contains(block)) {
    munmap(block, round_up(bytes, kPageBytes));
    pool_.release_resident(round_up(bytes, kPageBytes));
    return;
  }
  // The chunk has a block in it, so its user does not change.
  Arena& arena = arenas_[pool_.user_of(pool_.chunk_of(block))];
  auto* returned = new (block) Returned{arena.returns.load(std::memory_order_relaxed), bytes};
  while (!arena.returns.compare_exchange_weak(returned->next, returned, std::memory_order_release,
                                              std::memory_order_relaxed)) {
  }
  if (!try_hold(arena)) return;  // whoever holds it next will find it
  work_off_returns(arena);
  let_go(arena);
}

void ArrayMemory::work_off_returns(Arena& arena) noexcept {
  if (arena.returns.load(std::memory_order_relaxed) == nullptr) return;
  Returned* returned = arena.returns.exchange(nullptr, std::memory_order_acquire);
  while (returned != nullptr) {
    Returned* next = returned->next;
    give(arena, reinterpret_cast<std::byte*>(returned), returned->bytes);
    returned = next;
  }
}

void ArrayMemory::give(Arena& arena, std::byte* block, std::size_t bytes) noexcept {
  const std::size_t chunk = pool_.chunk_of(block);
  const auto offset = static_cast<std::size_t>(block - pool_.address(chunk));
  RunMap& runs = map(chunk);
  runs.give(static_cast<std::uint32_t>(offset / kGranuleBytes),
            static_cast<std::uint32_t>(bytes / kGranuleBytes));
  const bool empty = runs.taken() == kMapGranules;
  if (!empty || arena.empty_chunks < kSpareChunks) {
    index_chunk(arena, chunk, runs.longest_free());
    if (empty) ++arena.empty_chunks;
    return;
  }
  index_chunk(arena, chunk, 0);
  pool_.close(chunk);
}

void* ArrayMemory::map_block(std::size_t bytes) noexcept {
  std::byte* memory = map_zeros(round_up(bytes, kPageBytes));
  if (memory == nullptr) pool_.release_resident(round_up(bytes, kPageBytes));
  return memory;
}

}  // namespace pail::engine
