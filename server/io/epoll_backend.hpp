// The epoll backend: for kernels and containers that have no io_uring for us.
//
// Level-triggered; one receive a socket and reap, into chunks that are all used again by the next
// reap. A send is tried at once and most often done at once. Interest in a socket is changed only
// when the kernel reports something that nobody asked for, so the usual turn is: wait, receive,
// send.
#pragma once

#include <sys/epoll.h>

#include <vector>

#include "server/io/backend.hpp"
#include "server/io/mapping.hpp"

namespace pail::io {

class EpollBackend final : public Backend {
 public:
  EpollBackend(int epoll, int wake_descriptor, Mapping chunks, const Sizes& sizes);
  ~EpollBackend() override;

  std::span<const Event> reap(int timeout_ms) noexcept override;
  void accept(Key key, int listener) noexcept override;
  void receive(Key key, int socket, Receive mode) noexcept override;
  void stop(Key key, int descriptor) noexcept override;
  Sending send(Key key, int socket, Bytes bytes) noexcept override;
  void recycle(const Event& /*event*/) noexcept override {}  // by the next reap
  void close(int socket) noexcept override;
  void wake() noexcept override;
  const Counts& counts() const noexcept override { return counts_; }

 private:
  // What is asked of one descriptor, and what the kernel watches it for.
  struct Watch {
    std::uint32_t events = 0;  // registered with epoll
    bool is_registered = false;
    bool is_accepting = false;
    bool is_receiving = false;
    bool is_sending = false;
    Receive mode = Receive::once;
    Key input;  // of the accept or the receive
    Key output;
    Bytes rest;      // not yet sent
    int result = 0;  // of the send so far: bytes, or the negated errno
  };

  [[nodiscard]] Watch& watch(int descriptor) noexcept;
  [[nodiscard]] bool want(Watch& watch, int descriptor, std::uint32_t events) noexcept;
  void forget(Watch& watch, int descriptor) noexcept;
  void handle(const epoll_event& ready) noexcept;
  void accept_some(Watch& watch, int listener) noexcept;
  void receive_one(Watch& watch, int socket) noexcept;
  void end_input(Watch& watch, int code) noexcept;
  [[nodiscard]] bool send_some(Watch& watch, int socket) noexcept;
  void drain_wake() noexcept;
  [[nodiscard]] bool is_full() const noexcept;

  const int epoll_;
  const int wake_descriptor_;  // written by any thread
  Mapping chunks_;
  const std::uint32_t chunk_count_;
  const std::uint32_t chunk_bytes_;
  std::uint32_t chunks_used_ = 0;  // since the last reap began
  std::vector<Watch> watches_;     // by descriptor
  std::vector<epoll_event> ready_;
  std::vector<Event> events_;  // of this reap
  std::vector<Event> noted_;   // between two reaps, for the next
  Counts counts_;
};

[[nodiscard]] tl::expected<std::unique_ptr<Backend>, IoError> make_epoll(const Sizes& sizes);

}  // namespace pail::io
