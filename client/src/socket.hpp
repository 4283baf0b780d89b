// A connected stream socket, never blocking: who wants to wait, waits in wait_for() until a
// deadline.
//
// One thread may send while another receives; the connection sees to it that there is never more
// than one of each. shut_down() may be called from any thread and ends the waiting of the others.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <pail/error.hpp>
#include "client/src/server_clock.hpp"

namespace pail::internal {

// Ends the wait of another thread. Rung before the wait begins, it ends it at once: no ring is
// lost.
class Bell {
 public:
  [[nodiscard]] static Result<Bell> make();
  Bell(Bell&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Bell& operator=(Bell&&) = delete;
  ~Bell();
  void ring() noexcept;     // any thread
  void silence() noexcept;  // who waits
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

 private:
  explicit Bell(int fd) noexcept : fd_(fd) {}
  int fd_;
};

class Socket {
 public:
  // `tcp_congestion` may be empty; `cancel` rung is a deadline that passes. Errors: bad_argument,
  // timeout, connection_refused, unreachable, system.
  [[nodiscard]] static Result<Socket> connect(std::string_view address,
                                              std::string_view tcp_congestion, Time deadline,
                                              Bell* cancel = nullptr);

  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  enum class Outcome { progress, would_block, ended, failed };
  struct Transfer {
    Outcome outcome = Outcome::progress;
    std::size_t bytes = 0;  // with `progress`
    int error = 0;          // errno, with `failed`
  };
  [[nodiscard]] Transfer send(std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] Transfer receive(std::span<std::byte> room) noexcept;  // `ended`: the peer closed

  struct Ready {
    bool readable = false;  // or at its end, or failed: receive() will tell
    bool writable = false;
  };
  // Neither: the deadline passed, or the bell was rung (and is silent again).
  [[nodiscard]] Ready wait_for(bool to_read, bool to_write, Time deadline,
                               Bell* bell = nullptr) noexcept;

  void shut_down() noexcept;

 private:
  explicit Socket(int fd) noexcept : fd_(fd) {}
  int fd_;
};

}  // namespace pail::internal
