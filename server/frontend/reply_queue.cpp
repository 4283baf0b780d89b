#include "server/frontend/reply_queue.hpp"

#include <new>

namespace pail::frontend {

ReplyBlock* ReplyPool::take() noexcept {
  if (free_blocks_ == 0) return nullptr;
  --free_blocks_;
  if (first_ != nullptr) {
    ReplyBlock* const block = first_;
    first_ = block->next;
    block->next = nullptr;
    return block;
  }
  assert(untouched_ > 0);
  std::byte* const at = at_;
  at_ += ReplyBlock::kSizeBytes;
  --untouched_;
  return new (at) ReplyBlock;  // leaves the bytes as they are
}

void ReplyPool::give_back(ReplyBlock* block) noexcept {
  block->filled = 0;
  block->sent = 0;
  block->next = first_;
  first_ = block;
  ++free_blocks_;
}

bool ReplyQueue::extend([[maybe_unused]] std::size_t size_bytes, ReplyPool& pool) noexcept {
  assert(size_bytes <= ReplyBlock::kRoomBytes);
  ReplyBlock* const block = pool.take();
  if (block == nullptr) return false;
  // A last block that is empty is being sent no more: only the first can be, and sent() gives that
  // back.
  (last_ == nullptr ? first_ : last_->next) = block;
  last_ = block;
  return true;
}

void ReplyQueue::sent(std::size_t size_bytes, ReplyPool& pool) noexcept {
  assert(first_ != nullptr && size_bytes <= first_->filled - first_->sent);
  first_->sent += static_cast<std::uint32_t>(size_bytes);
  pending_bytes_ -= size_bytes;
  if (first_->sent < first_->filled) return;
  ReplyBlock* const done = first_;
  first_ = done->next;
  if (first_ == nullptr) last_ = nullptr;
  pool.give_back(done);
}

void ReplyQueue::clear(ReplyPool& pool) noexcept {
  while (first_ != nullptr) {
    ReplyBlock* const block = first_;
    first_ = block->next;
    pool.give_back(block);
  }
  last_ = nullptr;
  pending_bytes_ = 0;
}

}  // namespace pail::frontend
