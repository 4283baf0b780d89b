// Reply bytes between the front end, which appends, and the socket, which takes from the front.
//
// A queue is a chain of equal blocks that it borrows from the pool of its shard and gives back as
// soon as they are sent: an idle connection holds none, and the pool is the bound on what all peers
// together can leave unread. Bytes that are being sent never move; new ones are appended behind
// them.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pail::frontend {

struct ReplyBlock {
  static constexpr std::size_t kSizeBytes = 16 * 1024;
  static constexpr std::size_t kRoomBytes = kSizeBytes - 16;

  ReplyBlock* next = nullptr;
  std::uint32_t filled = 0;
  std::uint32_t sent = 0;
  std::byte bytes[kRoomBytes];
};
static_assert(sizeof(ReplyBlock) == ReplyBlock::kSizeBytes);

// Blocks in memory that the owner lends, zeroed or not. The block given back last is lent first,
// while it is in the cache; a block that was never needed is never touched.
class ReplyPool {
 public:
  explicit ReplyPool(std::span<std::byte> memory) noexcept
      : at_(memory.data()), untouched_(memory.size() / ReplyBlock::kSizeBytes) {
    free_blocks_ = untouched_;
  }
  ReplyPool(const ReplyPool&) = delete;
  ReplyPool& operator=(const ReplyPool&) = delete;

  // Null if all are lent.
  [[nodiscard]] ReplyBlock* take() noexcept;
  void give_back(ReplyBlock* block) noexcept;
  [[nodiscard]] std::size_t free_bytes() const noexcept {
    return free_blocks_ * ReplyBlock::kRoomBytes;
  }

 private:
  ReplyBlock* first_ = nullptr;
  std::byte* at_;          // the first block never touched
  std::size_t untouched_;  // and how many there are from there on
  std::size_t free_blocks_ = 0;
};

// Must be empty, by clear(), before it goes or its pool does.
class ReplyQueue {
 public:
  ReplyQueue() = default;
  ReplyQueue(const ReplyQueue&) = delete;
  ReplyQueue& operator=(const ReplyQueue&) = delete;
  ~ReplyQueue() { assert(first_ == nullptr); }

  // Room for at least `size_bytes` at the end, empty if the pool is. Follow with append(): the
  // bytes written, at most the room's.
  [[nodiscard]] std::span<std::byte> room(std::size_t size_bytes, ReplyPool& pool) noexcept {
    if (last_ == nullptr || ReplyBlock::kRoomBytes - last_->filled < size_bytes) [[unlikely]] {
      if (!extend(size_bytes, pool)) return {};
    }
    return {last_->bytes + last_->filled, ReplyBlock::kRoomBytes - last_->filled};
  }
  void append(std::size_t size_bytes) noexcept {
    last_->filled += static_cast<std::uint32_t>(size_bytes);
    assert(last_->filled <= ReplyBlock::kRoomBytes);
    pending_bytes_ += size_bytes;
  }

  // The next bytes to send; empty if there are none.
  [[nodiscard]] std::span<const std::byte> front() const noexcept {
    if (first_ == nullptr) return {};
    return {first_->bytes + first_->sent, first_->filled - first_->sent};
  }
  void sent(std::size_t size_bytes, ReplyPool& pool) noexcept;

  // Appended and not yet sent.
  [[nodiscard]] std::size_t pending_bytes() const noexcept { return pending_bytes_; }
  void clear(ReplyPool& pool) noexcept;

 private:
  [[nodiscard]] bool extend(std::size_t size_bytes, ReplyPool& pool) noexcept;

  ReplyBlock* first_ = nullptr;
  ReplyBlock* last_ = nullptr;
  std::size_t pending_bytes_ = 0;
};

}  // namespace pail::frontend
