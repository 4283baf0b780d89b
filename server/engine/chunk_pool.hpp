// Chunks of 2 MiB for array_memory.hpp: who has which, what is resident, and a thread that takes
// the kernel's slowness upon itself.
//
// Under a hypervisor the first touch of a chunk takes 6 to 8 ms (the host finds its memory page by
// page), and giving one back 60 us. So a thread of the pool's own keeps a few chunks ready, touched
// already, and gives back those that are too many. Whoever opens a chunk and finds none ready
// touches it himself, as if there were no thread; so nobody ever waits for it.
//
// A chunk's owner goes round: nobody -> busy (with the thread) -> spare -> its user -> spare or
// nobody. Spare and used ones are resident, and counted: the limit holds for both together.
//
// Limits: 1 spare chunk and one more for every 64 that are resident, at most kMostSpares; more than
// kMostReturned are given back by whoever closes them. Near the memory limit the thread makes none.
// It starts with the first chunk, so that an empty server has none, and sleeps in a futex while
// there is nothing to do.
//
// Thread safety: any thread, any time. Progress: nobody waits.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "server/engine/table_types.hpp"

namespace pail::engine {

class ChunkPool {
 public:
  static constexpr std::size_t kChunkBytes = std::size_t{2} << 20;
  static constexpr std::size_t kMostSpares = 8;
  static constexpr std::size_t kMostReturned = 64;
  static constexpr std::uint8_t kMostUsers = 253;

  // Throws std::bad_alloc if not even addresses can be reserved.
  explicit ChunkPool(std::size_t limit_bytes);
  ~ChunkPool();  // all chunks go with it
  ChunkPool(const ChunkPool&) = delete;
  ChunkPool& operator=(const ChunkPool&) = delete;

  // A chunk of anything for `user` (below kMostUsers), at a low address; or the limit refuses.
  [[nodiscard]] std::optional<std::size_t> open(std::uint8_t user, Need need) noexcept;
  // By its user, who has forgotten it already.
  void close(std::size_t chunk) noexcept;

  [[nodiscard]] std::uint8_t user_of(std::size_t chunk) const noexcept {
    return static_cast<std::uint8_t>(owners_[chunk].load(std::memory_order_relaxed) - kFirstUser);
  }
  [[nodiscard]] std::size_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::byte* address(std::size_t chunk) const noexcept {
    return base_ + chunk * kChunkBytes;
  }
  [[nodiscard]] bool contains(const void* block) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(block) - base_) <
           chunks_ * kChunkBytes;
  }
  [[nodiscard]] std::size_t chunk_of(const void* block) const noexcept {
    return static_cast<std::size_t>(static_cast<const std::byte*>(block) - base_) / kChunkBytes;
  }

  // The limit's account, for what lies elsewhere, too. Copies are never refused.
  [[nodiscard]] bool reserve_resident(std::size_t bytes, Need need) noexcept;
  void release_resident(std::size_t bytes) noexcept {
    resident_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t resident_bytes() const noexcept {
    return resident_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_; }
  // Whether new keys would get no further chunk.
  [[nodiscard]] bool at_limit() const noexcept {
    return spares_.load(std::memory_order_relaxed) == 0 &&
           resident_bytes() + kChunkBytes > growth_limit_;
  }
  // Chunks that are resident and nobody's, about. For tests.
  [[nodiscard]] std::size_t spares() const noexcept {
    return spares_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint8_t kNobody = 0;  // not resident
  static constexpr std::uint8_t kSpare = 1;
  static constexpr std::uint8_t kBusy = 2;  // with the thread, on its way to or from the kernel
  static constexpr std::uint8_t kFirstUser = 3;

  [[nodiscard]] std::optional<std::size_t> claim(std::uint8_t from, std::uint8_t to) noexcept;
  void offer(std::size_t chunk, std::uint8_t owner) noexcept;
  void give_back(std::size_t chunk) noexcept;
  [[nodiscard]] std::size_t wanted_spares() const noexcept;

  void start_thread() noexcept;
  void wake_thread() noexcept;
  void run() noexcept;
  [[nodiscard]] bool prepare_one() noexcept;
  [[nodiscard]] bool drop_one() noexcept;

  const std::size_t limit_;
  const std::size_t growth_limit_;  // the limit less the reserve that is kept for copies
  std::size_t chunks_ = 0;          // reserved addresses
  std::byte* mapping_ = nullptr;    // base_ is the first chunk boundary in it
  std::byte* base_ = nullptr;
  // By chunk; CAS. To kNobody or kSpare with release, from them with acquire: the last uses of the
  // chunk, the kernel's taking and the first touch are over.
  std::atomic<std::uint8_t>* owners_ = nullptr;
  std::atomic<std::size_t> lowest_free_{0};  // a hint: where to look for a free chunk
  std::atomic<std::size_t> resident_{0};     // counts, so relaxed; spares_ never too low
  std::atomic<std::size_t> spares_{0};

  // RMW by whoever has something for the thread (release), read and waited for by it (acquire).
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<bool> is_stopping_{false};
  std::atomic<bool> is_begun_{false};  // exchange: who starts the thread
  std::atomic<bool> has_thread_{false};
  pthread_t thread_{};        // by that one before has_thread_; read at the end
  bool is_dropping_ = false;  // plain: the thread's
};

}  // namespace pail::engine
