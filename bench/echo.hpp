// The ceiling: a server that moves frames of the same sizes as paild and decides nothing.
//
// It answers HELLO like any Pail server, and then every frame with an `ok` of reply size that
// carries the request's operation and tag. No key is hashed, no state kept, no rule of the protocol
// checked but the frame's size. One thread, one io_uring, one flush a connection at the end of a
// turn: what is left is what the kernel costs, so paild's distance from it is what deciding costs.
#pragma once

#include <csignal>
#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "protocol/address.hpp"

namespace pail::bench {

struct EchoOptions {
  protocol::Address listen;
  std::string congestion;  // empty: the system's default
};

class EchoServer {
 public:
  EchoServer();
  ~EchoServer();
  // Listens from here on. To be called on the thread that will call run().
  [[nodiscard]] tl::expected<void, std::string> open(const EchoOptions& options);
  // Where it listens, the kernel's choice for port 0 included.
  [[nodiscard]] const protocol::Address& address() const noexcept;
  // Until `stop` is set by a signal handler. The error is what made it give up.
  [[nodiscard]] tl::expected<void, std::string> run(const volatile std::sig_atomic_t& stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pail::bench
