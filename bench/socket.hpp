// Sockets as the generator and the echo server need them: blocking set-up, errors as text.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "protocol/address.hpp"
#include "protocol/codec.hpp"

namespace pail::bench {

// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) noexcept : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// `congestion` names a TCP congestion control; empty: the system's default. It matters: pacing
// (bbr) makes loopback 3 times slower.
[[nodiscard]] tl::expected<Socket, std::string> listen_on(const protocol::Address& address,
                                                          const std::string& congestion);
[[nodiscard]] tl::expected<Socket, std::string> connect_to(const protocol::Address& address,
                                                           const std::string& congestion);

// The address that a listening socket got, where the port asked for was 0.
[[nodiscard]] tl::expected<protocol::Address, std::string> address_of(const Socket& socket);

// Sends HELLO, with the token where it is not empty, and waits for the answer, at most 5 s.
[[nodiscard]] tl::expected<void, std::string> say_hello(const Socket& socket,
                                                        const std::string& token);

// Binds the calling thread to one CPU; nothing if `cpu` is negative.
[[nodiscard]] tl::expected<void, std::string> pin_thread(int cpu);

}  // namespace pail::bench
