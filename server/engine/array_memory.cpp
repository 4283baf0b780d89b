#include "server/engine/array_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

namespace pail::engine {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMapGranules = (sizeof(RunMap) + 63) / 64;
// Kept for entries under way when new keys are refused.
constexpr std::size_t kReserveShare = 32;

static_assert(std::size_t{RunMap::kGranules} * ArrayMemory::kGranuleBytes ==
              ArrayMemory::kChunkBytes);
static_assert(sizeof(std::atomic<std::uint8_t>) == 1, "made of the kernel's zeros");

constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

// Zeros that become resident as they are touched; nullptr if refused.
std::byte* map_zeros(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

std::size_t machine_bytes() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

ArrayMemory::ArrayMemory(const TableOptions& options)
    : limit_(options.memory_limit_bytes),
      growth_limit_(limit_ - std::min(limit_, std::max(limit_ / kReserveShare, kChunkBytes))) {
  // Copies may go beyond the limit, and some chunks are half empty. Where addresses are short
  // (ulimit -v) fewer will do: then there are more mappings.
  const std::size_t wanted = std::min(limit_, machine_bytes());
  for (chunks_ = wanted / kChunkBytes + wanted / kChunkBytes / 8 + kArenas; mapping_ == nullptr;
       chunks_ /= 2) {
    if (chunks_ == 0) throw std::bad_alloc();
    mapping_ = map_zeros((chunks_ + 1) * kChunkBytes);
    if (mapping_ != nullptr) break;
  }
  base_ = mapping_ + (round_up(reinterpret_cast<std::uintptr_t>(mapping_), kChunkBytes) -
                      reinterpret_cast<std::uintptr_t>(mapping_));
  madvise(base_, chunks_ * kChunkBytes, MADV_HUGEPAGE);

  chunk_leaves_ = std::bit_ceil(chunks_);
  owners_ = reinterpret_cast<std::atomic<std::uint8_t>*>(map_zeros(chunks_));
  if (owners_ == nullptr) throw std::bad_alloc();
  for (Arena& arena : arenas_) {
    arena.longest = reinterpret_cast<std::uint16_t*>(map_zeros(2 * chunk_leaves_ * 2));
    if (arena.longest == nullptr) throw std::bad_alloc();
  }
}

ArrayMemory::~ArrayMemory() {
  for (Arena& arena : arenas_) munmap(arena.longest, 2 * chunk_leaves_ * 2);
  munmap(owners_, chunks_);
  munmap(mapping_, (chunks_ + 1) * kChunkBytes);
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
  if (!reserve_resident(round_up(bytes, kPageBytes), need)) return nullptr;
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
  return address(chunk) + std::size_t{first} * kGranuleBytes;
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

bool ArrayMemory::reserve_resident(std::size_t bytes, Need need) noexcept {
  const std::size_t before = resident_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t limit = need == Need::growth ? growth_limit_ : limit_;
  if (need == Need::copy || before + bytes <= limit) return true;
  resident_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

bool ArrayMemory::open_chunk(Arena& arena, Need need) noexcept {
  if (!reserve_resident(kChunkBytes, need)) return false;
  const auto me = static_cast<std::uint8_t>(&arena - arenas_.data() + 1);
  for (std::size_t chunk = lowest_free_.load(std::memory_order_relaxed); chunk < chunks_; ++chunk) {
    std::uint8_t owner = owners_[chunk].load(std::memory_order_relaxed);
    // Acquire: the kernel has taken the chunk's old pages before it was given up.
    if (owner != kNobody || !owners_[chunk].compare_exchange_strong(
                                owner, me, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      continue;
    }
    lowest_free_.store(chunk + 1, std::memory_order_relaxed);
    const RunMap& runs = *new (address(chunk)) RunMap(kMapGranules);
    ++arena.empty_chunks;
    index_chunk(arena, chunk, runs.longest_free());
    return true;
  }
  lowest_free_.store(0, std::memory_order_relaxed);
  resident_.fetch_sub(kChunkBytes, std::memory_order_relaxed);
  return false;
}

void ArrayMemory::release(void* block, std::size_t bytes) noexcept {
  auto* begin = static_cast<std::byte*>(block);
  if (begin < base_ || begin >= base_ + chunks_ * kChunkBytes) {
    munmap(block, round_up(bytes, kPageBytes));
    resident_.fetch_sub(round_up(bytes, kPageBytes), std::memory_order_relaxed);
    return;
  }
  const std::size_t chunk = static_cast<std::size_t>(begin - base_) / kChunkBytes;
  // The chunk has a block in it, so its owner does not change.
  Arena& arena = arenas_[owners_[chunk].load(std::memory_order_relaxed) - 1];
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
  const auto offset = static_cast<std::size_t>(block - base_);
  const std::size_t chunk = offset / kChunkBytes;
  RunMap& runs = map(chunk);
  runs.give(static_cast<std::uint32_t>(offset % kChunkBytes / kGranuleBytes),
            static_cast<std::uint32_t>(bytes / kGranuleBytes));
  const bool empty = runs.taken() == kMapGranules;
  if (!empty || arena.empty_chunks < kSpareChunks) {
    index_chunk(arena, chunk, runs.longest_free());
    if (empty) ++arena.empty_chunks;
    return;
  }
  index_chunk(arena, chunk, 0);
  close_chunk(chunk);
}

// Back to the kernel. Nobody else knows the chunk any more.
void ArrayMemory::close_chunk(std::size_t chunk) noexcept {
  madvise(address(chunk), kChunkBytes, MADV_DONTNEED);
  // Release: see open_chunk().
  owners_[chunk].store(kNobody, std::memory_order_release);
  std::size_t lowest = lowest_free_.load(std::memory_order_relaxed);
  while (chunk < lowest &&
         !lowest_free_.compare_exchange_weak(lowest, chunk, std::memory_order_relaxed)) {
  }
  resident_.fetch_sub(kChunkBytes, std::memory_order_relaxed);
}

void* ArrayMemory::map_block(std::size_t bytes) noexcept {
  std::byte* memory = map_zeros(round_up(bytes, kPageBytes));
  if (memory == nullptr)
    resident_.fetch_sub(round_up(bytes, kPageBytes), std::memory_order_relaxed);
  return memory;
}

}  // namespace pail::engine
