// One io_uring with one ring of provided receive buffers: what the generator and the echo server
// have in common. Owned and used by one thread.
#pragma once

#include <liburing.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

namespace pail::bench {

// What a completion belongs to.
struct Completion {
  enum class Kind : std::uint8_t { accept, receive, send };
  Kind kind;
  std::uint32_t slot;

  [[nodiscard]] std::uint64_t encode() const noexcept {
    return (std::uint64_t{slot} << 8) | static_cast<std::uint8_t>(kind);
  }
  [[nodiscard]] static Completion decode(std::uint64_t user_data) noexcept {
    return {static_cast<Kind>(user_data & 0xFF), static_cast<std::uint32_t>(user_data >> 8)};
  }
};

class Ring {
 public:
  // A burst that is larger than a buffer costs a completion more, and a completion costs as much as
  // dozens of frames: 16 KiB is the whole burst up to 400 frames of 40 bytes.
  static constexpr unsigned kBufferBytes = 16 * 1024;

  Ring() = default;
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // `buffers` is a power of two, at most 32768. Call it on the thread that will use the ring. The
  // error says which step failed and why.
  [[nodiscard]] tl::expected<void, std::string> open(unsigned entries, unsigned buffers);

  [[nodiscard]] io_uring* get() noexcept { return &ring_; }

  // A free submission entry; submits what is there if the queue is full.
  [[nodiscard]] io_uring_sqe* next_entry() noexcept;

  void arm_receive(int fd, bool is_fixed_file, std::uint32_t slot) noexcept;

  // The bytes of a receive completion: valid until the buffer is given back.
  [[nodiscard]] std::span<const std::byte> received(const io_uring_cqe& completion) const noexcept {
    return {buffers_ + std::size_t{buffer_id(completion)} * kBufferBytes,
            static_cast<std::size_t>(completion.res)};
  }
  void give_back(const io_uring_cqe& completion) noexcept {
    const unsigned id = buffer_id(completion);
    io_uring_buf_ring_add(buffer_ring_, buffers_ + std::size_t{id} * kBufferBytes, kBufferBytes,
                          static_cast<unsigned short>(id), static_cast<int>(count_ - 1), 0);
    io_uring_buf_ring_advance(buffer_ring_, 1);
  }

 private:
  [[nodiscard]] static unsigned buffer_id(const io_uring_cqe& completion) noexcept {
    return completion.flags >> IORING_CQE_BUFFER_SHIFT;
  }

  io_uring ring_{};
  bool is_open_ = false;
  unsigned count_ = 0;
  std::byte* buffers_ = nullptr;
  io_uring_buf_ring* buffer_ring_ = nullptr;
};

}  // namespace pail::bench
