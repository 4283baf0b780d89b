// The buffers that the kernel receives into: a ring of equal chunks shared with it ("provided
// buffers").
//
// The kernel takes chunks from the head, we give them back at the tail. Chunks are memory that is
// only touched when it is used, so a server without traffic does not pay for them.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <optional>

#include "server/io/backend.hpp"
#include "server/io/mapping.hpp"

namespace pail::io {

class ChunkRing {
 public:
  static constexpr std::uint16_t kGroup = 0;

  // `count` is a power of two, at most 32768.
  [[nodiscard]] static tl::expected<ChunkRing, IoError> make(io_uring& ring, std::uint32_t count,
                                                             std::uint32_t chunk_bytes);

  [[nodiscard]] const std::byte* data(std::uint32_t chunk) const noexcept {
    return chunks_.data() + std::size_t{chunk} * chunk_bytes_;
  }

  // Gives a chunk back; the kernel sees it after publish().
  void recycle(std::uint32_t chunk) noexcept {
    io_uring_buf_ring_add(ring(), chunks_.data() + std::size_t{chunk} * chunk_bytes_, chunk_bytes_,
                          static_cast<std::uint16_t>(chunk), static_cast<int>(count_ - 1),
                          recycled_++);
  }
  void publish() noexcept {
    if (recycled_ == 0) return;
    io_uring_buf_ring_advance(ring(), recycled_);
    recycled_ = 0;
  }

 private:
  ChunkRing(Mapping entries, Mapping chunks, std::uint32_t count,
            std::uint32_t chunk_bytes) noexcept;
  [[nodiscard]] io_uring_buf_ring* ring() noexcept {
    return reinterpret_cast<io_uring_buf_ring*>(entries_.data());
  }

  Mapping entries_;  // the ring itself: who owns which chunk
  Mapping chunks_;
  std::uint32_t count_;
  std::uint32_t chunk_bytes_;
  int recycled_ = 0;  // given back and not yet published
};

}  // namespace pail::io
