#include "server/io/chunk_ring.hpp"

#include <bit>
#include <cassert>
#include <cerrno>

#include "server/io/error.hpp"

namespace pail::io {

ChunkRing::ChunkRing(Mapping entries, Mapping chunks, std::uint32_t count,
                     std::uint32_t chunk_bytes) noexcept
    : entries_(std::move(entries)),
      chunks_(std::move(chunks)),
      count_(count),
      chunk_bytes_(chunk_bytes) {}

tl::expected<ChunkRing, IoError> ChunkRing::make(io_uring& ring, std::uint32_t count,
                                                 std::uint32_t chunk_bytes) {
  assert(std::has_single_bit(count) && count <= 32768);
  Mapping entries(count * sizeof(io_uring_buf));
  Mapping chunks(std::size_t{count} * chunk_bytes);
  if (!entries.is_valid() || !chunks.is_valid()) {
    return tl::unexpected(error_of("memory for receive buffers", ENOMEM));
  }
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(entries.data());
  registration.ring_entries = count;
  registration.bgid = kGroup;
  if (const int result = io_uring_register_buf_ring(&ring, &registration, 0); result < 0) {
    return tl::unexpected(error_of("io_uring_register_buf_ring", -result));
  }
  ChunkRing chunk_ring(std::move(entries), std::move(chunks), count, chunk_bytes);
  io_uring_buf_ring_init(chunk_ring.ring());
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) chunk_ring.recycle(chunk);
  chunk_ring.publish();
  return chunk_ring;
}

}  // namespace pail::io
