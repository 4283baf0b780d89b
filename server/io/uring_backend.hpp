// The io_uring backend: one ring, used by one thread.
#pragma once

#include <liburing.h>

#include <atomic>
#include <vector>

#include "server/io/backend.hpp"
#include "server/io/chunk_ring.hpp"

namespace pail::io {

// A ring set up as the backend wants it, and undone when it goes.
class Ring {
 public:
  [[nodiscard]] static tl::expected<std::unique_ptr<Ring>, IoError> make(std::uint32_t submissions,
                                                                         std::uint32_t completions);
  ~Ring() {
    if (is_made_) io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  [[nodiscard]] io_uring* get() noexcept { return &ring_; }

 private:
  Ring() = default;
  io_uring ring_{};
  bool is_made_ = false;
};

class UringBackend final : public Backend {
 public:
  UringBackend(std::unique_ptr<Ring> ring, ChunkRing chunks, int wake_descriptor);
  ~UringBackend() override;

  std::span<const Event> reap(int timeout_ms) noexcept override;
  void accept(Key key, int listener) noexcept override;
  void receive(Key key, int socket, Receive mode) noexcept override;
  void stop(Key key, int descriptor) noexcept override;
  Sending send(Key key, int socket, Bytes bytes) noexcept override;
  void recycle(const Event& event) noexcept override;
  void close(int socket) noexcept override;
  void wake() noexcept override;
  const Counts& counts() const noexcept override { return counts_; }

 private:
  [[nodiscard]] io_uring_sqe* next_submission() noexcept;
  void submit_and_wait(int timeout_ms) noexcept;
  void arm_wake() noexcept;
  [[nodiscard]] bool translate(const io_uring_cqe& completion, Event& event) noexcept;

  std::unique_ptr<Ring> owned_ring_;  // undone after the chunks that it was told of
  ChunkRing chunks_;
  io_uring* ring_;
  int wake_descriptor_;  // written by any thread
  std::vector<Event> events_;
  Counts counts_;
};

[[nodiscard]] tl::expected<std::unique_ptr<Backend>, IoError> make_uring(const Sizes& sizes);

}  // namespace pail::io
