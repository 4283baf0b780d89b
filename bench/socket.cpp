#include "bench/socket.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "protocol/wire.hpp"

namespace pail::bench {
namespace {

constexpr int kBacklog = 1024;
constexpr timeval kHelloTimeout{5, 0};

tl::unexpected<std::string> failed(std::string_view what, int error = errno) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(error)));
}

tl::expected<Socket, std::string> open_socket(const protocol::Address& address,
                                              const std::string& congestion) {
  Socket socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return failed("socket");
  if (!address.is_tcp) return socket;
  const int one = 1;
  if (setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
    return failed("TCP_NODELAY");
  }
  if (!congestion.empty() && setsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                        static_cast<socklen_t>(congestion.size())) != 0) {
    return failed(fmt::format("TCP congestion control '{}'", congestion));
  }
  return socket;
}

tl::expected<void, std::string> receive_exactly(int fd, std::byte* out, std::size_t size_bytes) {
  std::size_t got = 0;
  while (got < size_bytes) {
    const ssize_t n = recv(fd, out + got, size_bytes - got, 0);
    if (n == 0) return tl::unexpected(std::string("the server closed the connection"));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return tl::unexpected(std::string("no answer to HELLO within 5 s"));
    }
    if (n < 0) return failed("receiving the answer to HELLO");
    got += static_cast<std::size_t>(n);
  }
  return {};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

tl::expected<Socket, std::string> listen_on(const protocol::Address& address,
                                            const std::string& congestion) {
  auto socket = open_socket(address, congestion);  // What it accepts inherits both options.
  if (!socket) return socket;
  const int one = 1;
  if (setsockopt(socket->fd(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) {
    return failed("SO_REUSEADDR");
  }
  if (bind(socket->fd(), address.get(), address.size_bytes) != 0 ||
      listen(socket->fd(), kBacklog) != 0) {
    return failed(fmt::format("cannot listen on {}", address.text));
  }
  return socket;
}

tl::expected<Socket, std::string> connect_to(const protocol::Address& address,
                                             const std::string& congestion) {
  auto socket = open_socket(address, congestion);
  if (!socket) return socket;
  if (connect(socket->fd(), address.get(), address.size_bytes) != 0) {
    return failed(fmt::format("cannot connect to {}", address.text));
  }
  return socket;
}

tl::expected<protocol::Address, std::string> address_of(const Socket& socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(socket.fd(), address, &size) != 0) return failed("getsockname");
  return protocol::address_from(address, size);
}

tl::expected<void, std::string> say_hello(const Socket& socket, const std::string& token) {
  setsockopt(socket.fd(), SOL_SOCKET, SO_RCVTIMEO, &kHelloTimeout, sizeof kHelloTimeout);
  protocol::Hello hello;
  hello.tag = 1;
  hello.client_name = "pail-bench";
  hello.token = token;
  std::array<std::byte, protocol::kMaxHelloBytes> buffer;
  const std::size_t size = protocol::encode(hello, buffer);
  if (send(socket.fd(), buffer.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    return failed("sending HELLO");
  }
  // The prefix says how much more there is; nothing else is on its way, for nothing else was asked.
  if (auto got = receive_exactly(socket.fd(), buffer.data(), protocol::kFramePrefixBytes); !got) {
    return got;
  }
  const std::size_t reply_size = protocol::wire::load<std::uint16_t>(buffer.data());
  if (reply_size < protocol::kFramePrefixBytes || reply_size > buffer.size()) {
    return tl::unexpected(fmt::format("the answer to HELLO claims {} bytes", reply_size));
  }
  if (auto got = receive_exactly(socket.fd(), buffer.data() + protocol::kFramePrefixBytes,
                                 reply_size - protocol::kFramePrefixBytes);
      !got) {
    return got;
  }
  const auto reply = protocol::decode_hello_reply(protocol::Bytes(buffer.data(), reply_size));
  if (!reply) {
    return tl::unexpected(fmt::format("the answer to HELLO is wrong: {}", reply.error().reason));
  }
  if (reply->status != protocol::Status::ok) {
    return tl::unexpected(fmt::format("the server refused HELLO: {} ({})",
                                      protocol::name(reply->status), reply->error));
  }
  if (reply->tag != hello.tag) {
    return tl::unexpected(std::string("the answer to HELLO carries another tag"));
  }
  return {};
}

tl::expected<void, std::string> pin_thread(int cpu) {
  if (cpu < 0) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < CPU_SETSIZE) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) return failed(fmt::format("pin to CPU {}", cpu));
  return {};
}

}  // namespace pail::bench
