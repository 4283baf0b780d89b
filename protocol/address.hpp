// How an endpoint is written, by users of the server, the client and the generator alike:
//
//   127.0.0.1:7245   [::1]:7245   localhost:7245   127.0.0.1   [::1]   unix:/run/pail.sock
//
// The port is 7245 where none is given; 0 lets the kernel choose one. Names are not looked up (a
// resolver can stall for seconds, and answers differently tomorrow): `localhost` is 127.0.0.1.
// Parsing touches neither the network nor the file system.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace pail::protocol {

inline constexpr std::uint16_t kDefaultPort = 7245;

struct Address {
  sockaddr_storage storage{};
  socklen_t size_bytes = 0;
  bool is_tcp = false;       // else a Unix socket
  bool is_loopback = false;  // reachable from this machine only; true for a Unix socket
  std::string text;          // canonical: parses to the same address

  [[nodiscard]] int family() const noexcept { return storage.ss_family; }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
  // Of a TCP address; 0 for a Unix socket.
  [[nodiscard]] std::uint16_t port() const noexcept;
  // The path of a Unix socket; empty for TCP.
  [[nodiscard]] std::string unix_path() const;
};

// The error says what is wrong and what would be right.
[[nodiscard]] tl::expected<Address, std::string> parse_address(std::string_view text);

// From what the kernel returns (getsockname, accept). An unnamed Unix socket has the text "unix:".
[[nodiscard]] tl::expected<Address, std::string> address_from(const sockaddr* address,
                                                              socklen_t size_bytes);

}  // namespace pail::protocol
