#include "server/engine/chunk_pool.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "server/engine/zero_pages.hpp"

namespace pail::engine {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Kept for entries under way when new keys are refused.
constexpr std::size_t kReserveShare = 32;
// Besides what the limit allows, for copies and for chunks that are half empty.
constexpr std::size_t kMoreChunks = 8;
constexpr std::size_t kThreadStackBytes = 64 * 1024;

static_assert(sizeof(std::atomic<std::uint8_t>) == 1, "made of the kernel's zeros");

std::size_t machine_bytes() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Where the process may run at all: a shard that is pinned shall not have the thread on its core.
void leave_the_cpu_of_whoever_started_us() noexcept {
  cpu_set_t cpus;
  if (sched_getaffinity(getpid(), sizeof cpus, &cpus) == 0) {
    sched_setaffinity(0, sizeof cpus, &cpus);
  }
}

}  // namespace

ChunkPool::ChunkPool(std::size_t limit_bytes)
    : limit_(limit_bytes),
      growth_limit_(limit_ - std::min(limit_, std::max(limit_ / kReserveShare, kChunkBytes))) {
  // Where addresses are short (ulimit -v) fewer will do: then there are more mappings.
  const std::size_t wanted = std::min(limit_, machine_bytes()) / kChunkBytes;
  for (chunks_ = wanted + wanted / 8 + kMoreChunks; mapping_ == nullptr; chunks_ /= 2) {
    if (chunks_ == 0) throw std::bad_alloc();
    mapping_ = map_zeros((chunks_ + 1) * kChunkBytes);
    if (mapping_ != nullptr) break;
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping_);
  base_ = mapping_ + ((begin + kChunkBytes - 1) / kChunkBytes * kChunkBytes - begin);
  madvise(base_, chunks_ * kChunkBytes, MADV_HUGEPAGE);
  owners_ = reinterpret_cast<std::atomic<std::uint8_t>*>(map_zeros(chunks_));
  if (owners_ == nullptr) {
    munmap(mapping_, (chunks_ + 1) * kChunkBytes);
    throw std::bad_alloc();
  }
}

ChunkPool::~ChunkPool() {
  if (has_thread_.load(std::memory_order_acquire)) {
    is_stopping_.store(true, std::memory_order_relaxed);
    wake_thread();
    pthread_join(thread_, nullptr);
  }
  munmap(owners_, chunks_);
  munmap(mapping_, (chunks_ + 1) * kChunkBytes);
}

bool ChunkPool::reserve_resident(std::size_t bytes, Need need) noexcept {
  const std::size_t before = resident_.fetch_add(bytes, std::memory_order_relaxed);
  const std::size_t limit = need == Need::growth ? growth_limit_ : limit_;
  if (need == Need::copy || before + bytes <= limit) return true;
  resident_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

// The lowest chunk of that owner, or nothing.
std::optional<std::size_t> ChunkPool::claim(std::uint8_t from, std::uint8_t to) noexcept {
  // What the hint says is no proof: the second time all are looked at.
  for (std::size_t begin = lowest_free_.load(std::memory_order_relaxed);; begin = 0) {
    std::optional<std::size_t> lowest;  // that is free in whatever way
    for (std::size_t chunk = begin; chunk < chunks_; ++chunk) {
      std::uint8_t owner = owners_[chunk].load(std::memory_order_relaxed);
      if (owner == from && owners_[chunk].compare_exchange_strong(
                               owner, to, std::memory_order_acquire, std::memory_order_relaxed)) {
        lowest_free_.store(lowest.value_or(chunk + 1), std::memory_order_relaxed);
        return chunk;
      }
      if (!lowest && owner < kFirstUser) lowest = chunk;
    }
    if (begin == 0) return std::nullopt;
  }
}

void ChunkPool::offer(std::size_t chunk, std::uint8_t owner) noexcept {
  owners_[chunk].store(owner, std::memory_order_release);
  std::size_t lowest = lowest_free_.load(std::memory_order_relaxed);
  while (chunk < lowest &&
         !lowest_free_.compare_exchange_weak(lowest, chunk, std::memory_order_relaxed)) {
  }
}

std::optional<std::size_t> ChunkPool::open(std::uint8_t user, Need need) noexcept {
  const auto owner = static_cast<std::uint8_t>(kFirstUser + user);
  std::optional<std::size_t> chunk;
  if (spares_.load(std::memory_order_relaxed) != 0) chunk = claim(kSpare, owner);
  if (chunk) {
    spares_.fetch_sub(1, std::memory_order_relaxed);
  } else if (reserve_resident(kChunkBytes, need)) {
    chunk = claim(kNobody, owner);
    if (!chunk) release_resident(kChunkBytes);
  }
  if (!chunk) return chunk;
  if (!is_begun_.load(std::memory_order_relaxed)) start_thread();
  if (spares_.load(std::memory_order_relaxed) < wanted_spares()) wake_thread();
  return chunk;
}

void ChunkPool::close(std::size_t chunk) noexcept {
  const std::size_t spares = spares_.load(std::memory_order_relaxed);
  if (spares >= kMostReturned || !has_thread_.load(std::memory_order_relaxed)) {
    return give_back(chunk);
  }
  spares_.fetch_add(1, std::memory_order_relaxed);
  offer(chunk, kSpare);
  if (spares > wanted_spares()) wake_thread();
}

// To the kernel; the caller owns it.
void ChunkPool::give_back(std::size_t chunk) noexcept {
  madvise(address(chunk), kChunkBytes, MADV_DONTNEED);
  offer(chunk, kNobody);
  release_resident(kChunkBytes);
}

std::size_t ChunkPool::wanted_spares() const noexcept {
  const std::size_t resident = resident_bytes() / kChunkBytes;
  return std::min(kMostSpares, 1 + resident / 64);
}

// ---- the thread

void ChunkPool::start_thread() noexcept {
  if (is_begun_.exchange(true, std::memory_order_relaxed)) return;
  // Signals are for the threads that expect them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  const auto body = [](void* pool) -> void* {
    static_cast<ChunkPool*>(pool)->run();
    return nullptr;
  };
  // Not std::thread, which allocates: this is on the path of a request, if only once.
  const bool is_started = pthread_create(&thread_, &attributes, body, this) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_started) has_thread_.store(true, std::memory_order_release);
}

void ChunkPool::wake_thread() noexcept {
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_one();
}

void ChunkPool::run() noexcept {
  pthread_setname_np(pthread_self(), "pail-chunks");
  leave_the_cpu_of_whoever_started_us();
  for (;;) {
    const std::uint32_t seen = calls_.load(std::memory_order_acquire);
    if (is_stopping_.load(std::memory_order_relaxed)) return;
    if (!prepare_one() && !drop_one()) calls_.wait(seen, std::memory_order_acquire);
  }
}

bool ChunkPool::prepare_one() noexcept {
  if (spares_.load(std::memory_order_relaxed) >= wanted_spares()) return false;
  // At the limit chunks are for those who need them now.
  if (resident_bytes() + 2 * kMostSpares * kChunkBytes > growth_limit_) return false;
  if (!reserve_resident(kChunkBytes, Need::growth)) return false;
  const std::optional<std::size_t> chunk = claim(kNobody, kBusy);
  if (!chunk) {
    release_resident(kChunkBytes);
    return false;
  }
  // With huge pages the first touch does it, and the rest is nothing.
  for (std::size_t at = 0; at < kChunkBytes; at += kPageBytes) {
    *static_cast<volatile std::byte*>(address(*chunk) + at) = std::byte{0};
  }
  spares_.fetch_add(1, std::memory_order_relaxed);
  offer(*chunk, kSpare);
  return true;
}

// Begins with two too many, so that a chunk that comes and goes does not keep the thread busy; then
// all that are too many go.
bool ChunkPool::drop_one() noexcept {
  const std::size_t most = wanted_spares() + (is_dropping_ ? 0 : 1);
  is_dropping_ = spares_.load(std::memory_order_relaxed) > most;
  if (!is_dropping_) return false;
  for (std::size_t chunk = chunks_; chunk-- > 0;) {
    std::uint8_t owner = kSpare;
    if (owners_[chunk].load(std::memory_order_relaxed) == kSpare &&
        owners_[chunk].compare_exchange_strong(owner, kBusy, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
      spares_.fetch_sub(1, std::memory_order_relaxed);
      give_back(chunk);
      return true;
    }
  }
  return false;
}

}  // namespace pail::engine
