// The connections that send more than their share, waiting for their next chunk to be received: a
// queue of slots of fixed size. Used by the shard's thread only.
//
// A slot may leave its owner while it stands here, and even join again for the next one: whoever
// takes it out looks at the connection's own mark, and passes over a slot without one.
#pragma once

#include <cassert>
#include <cstdint>
#include <vector>

namespace pail::server {

class FloodLine {
 public:
  explicit FloodLine(std::uint32_t capacity) : slots_(capacity) {}

  // False: no room.
  [[nodiscard]] bool join(std::uint32_t slot) noexcept {
    if (size_ == slots_.size()) return false;
    slots_[(head_ + size_++) % slots_.size()] = slot;
    return true;
  }
  [[nodiscard]] std::uint32_t take_first() noexcept {
    assert(size_ > 0);
    const std::uint32_t slot = slots_[head_];
    head_ = (head_ + 1) % slots_.size();
    --size_;
    return slot;
  }
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(size_); }

 private:
  std::vector<std::uint32_t> slots_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace pail::server
