// Listening sockets, and the options that the accepted ones inherit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "protocol/address.hpp"
#include "server/io/backend.hpp"

namespace pail::io {

struct ListenOptions {
  int backlog = 1024;
  bool non_blocking = false;       // for epoll
  int receive_buffer_bytes = 0;    // of TCP; 0: the system's choice, which grows
  std::string congestion_control;  // empty: the system's default
  // How long to wait for an address that is in use: a server that was killed may go on listening
  // for a moment, because the kernel takes its io_uring apart only after the process has ended.
  std::uint32_t patience_ms = 0;
};

// One address, listened on by `count` descriptors: one a shard. TCP: a socket each, among which the
// kernel spreads new connections (SO_REUSEPORT). Unix: one socket under several descriptors.
class Listener {
 public:
  // Port 0 lets the kernel choose; address() then tells the port. Fails if anybody listens there
  // already, be it another paild: a shared port would split the traffic between two limits. A Unix
  // socket's file that nobody listens on any more is removed first; of several who find one at the
  // same time, one listens and the others fail.
  [[nodiscard]] static tl::expected<Listener, IoError> open(const protocol::Address& address,
                                                            std::size_t count,
                                                            const ListenOptions& options);
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  [[nodiscard]] const protocol::Address& address() const noexcept { return address_; }
  [[nodiscard]] int descriptor(std::size_t index) const noexcept { return descriptors_[index]; }

  // No connection is accepted any more; new ones are refused.
  void close() noexcept;

  using File = std::pair<dev_t, ino_t>;

 private:
  Listener() = default;
  [[nodiscard]] static tl::expected<Listener, IoError> try_to_open(const protocol::Address& address,
                                                                   std::size_t count,
                                                                   const ListenOptions& options);

  protocol::Address address_;
  std::vector<int> descriptors_;
  std::optional<File> file_;  // of a Unix socket
};

// Who is at the other end of a socket; 0, and nothing in `peer`, where that is not known any more.
[[nodiscard]] socklen_t peer_of(int socket, sockaddr_storage& peer) noexcept;

// Whether who is at the other end is on this machine: loopback or a Unix socket.
[[nodiscard]] bool is_peer_local(int socket) noexcept;

// No more will be sent: the peer reads the end of the stream after what is on its way.
void shut_down_sending(int socket) noexcept;
// What has arrived can still be read, then the stream ends.
void shut_down_receiving(int socket) noexcept;
// Both: whatever is in flight for the socket ends soon.
void shut_down(int socket) noexcept;

}  // namespace pail::io
