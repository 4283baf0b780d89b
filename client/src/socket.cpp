#include "client/src/socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <system_error>

#include "protocol/address.hpp"

namespace pail::internal {
namespace {

std::string system_text(int error) {
  return std::system_category().message(error);
}

Error connect_error(std::string_view address, int error) {
  const std::string to = "cannot connect to " + std::string(address) + ": ";
  switch (error) {
    case ECONNREFUSED:
      return {ErrorCode::connection_refused, to + "nothing listens there (is paild running?)"};
    case ENOENT:
      return {ErrorCode::unreachable, to + "no such socket (is paild running?)"};
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case ECONNRESET:
      return {ErrorCode::unreachable, to + system_text(error)};
    case ETIMEDOUT:
      return {ErrorCode::timeout, to + "no answer"};
    default:
      return {ErrorCode::system, to + system_text(error)};
  }
}

void set_flag(int fd, int level, int option) noexcept {
  const int on = 1;
  // Best effort: without it the connection works, only slower to answer or to notice a dead peer.
  (void)::setsockopt(fd, level, option, &on, sizeof on);
}

}  // namespace

Result<Socket> Socket::connect(std::string_view address, std::string_view tcp_congestion,
                               Time deadline, Bell* cancel) {
  const auto parsed = protocol::parse_address(address);
  if (!parsed) return tl::unexpected(Error{ErrorCode::bad_argument, parsed.error()});

  const int fd = ::socket(parsed->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return tl::unexpected(connect_error(address, errno));
  Socket socket(fd);

  if (parsed->is_tcp) {
    set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
    set_flag(fd, SOL_SOCKET, SO_KEEPALIVE);
    const auto name_bytes = static_cast<socklen_t>(tcp_congestion.size());
    if (!tcp_congestion.empty() &&
        ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, tcp_congestion.data(), name_bytes) != 0) {
      return tl::unexpected(
          Error{ErrorCode::bad_argument, "TCP congestion control '" + std::string(tcp_congestion) +
                                             "' cannot be used: " + system_text(errno)});
    }
  }

  for (;;) {
    if (::connect(fd, parsed->get(), parsed->size_bytes) == 0) return socket;
    // EAGAIN: a Unix socket whose queue of connections is full. There is nothing to wait on, so
    // wait for nothing, briefly.
    if (errno == EAGAIN && Clock::now() < deadline) {
      pollfd bell{cancel != nullptr ? cancel->descriptor() : -1, POLLIN, 0};
      if (::poll(&bell, 1, 1) == 0) continue;
      return tl::unexpected(connect_error(address, ETIMEDOUT));
    }
    if (errno != EINPROGRESS && errno != EINTR) {
      return tl::unexpected(connect_error(address, errno == EAGAIN ? ETIMEDOUT : errno));
    }
    break;
  }
  if (!socket.wait_for(false, true, deadline, cancel).writable) {
    return tl::unexpected(connect_error(address, ETIMEDOUT));
  }
  int error = 0;
  socklen_t error_bytes = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0) error = errno;
  if (error != 0) return tl::unexpected(connect_error(address, error));
  return socket;
}

Result<Bell> Bell::make() {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) {
    return tl::unexpected(
        Error{ErrorCode::system, "cannot make an eventfd: " + system_text(errno)});
  }
  return Bell(fd);
}

Bell::~Bell() {
  if (fd_ >= 0) ::close(fd_);
}

void Bell::ring() noexcept {
  const std::uint64_t one = 1;
  // It fails only when the count is full: then it rings already.
  (void)!::write(fd_, &one, sizeof one);
}

void Bell::silence() noexcept {
  std::uint64_t count = 0;
  (void)!::read(fd_, &count, sizeof count);
}

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket::Transfer Socket::send(std::span<const std::byte> bytes) noexcept {
  for (;;) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {Outcome::progress, static_cast<std::size_t>(sent), 0};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == ENOBUFS) return {Outcome::would_block, 0, 0};
    return {Outcome::failed, 0, errno};
  }
}

Socket::Transfer Socket::receive(std::span<std::byte> room) noexcept {
  for (;;) {
    const ssize_t received = ::recv(fd_, room.data(), room.size(), MSG_DONTWAIT);
    if (received > 0) return {Outcome::progress, static_cast<std::size_t>(received), 0};
    if (received == 0) return {Outcome::ended, 0, 0};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {Outcome::would_block, 0, 0};
    return {Outcome::failed, 0, errno};
  }
}

Socket::Ready Socket::wait_for(bool to_read, bool to_write, Time deadline, Bell* bell) noexcept {
  std::array<pollfd, 2> watched{};
  watched[0].fd = fd_;
  watched[0].events = static_cast<short>((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0));
  watched[1].fd = bell != nullptr ? bell->descriptor() : -1;
  watched[1].events = POLLIN;
  for (;;) {
    const std::chrono::nanoseconds left =
        std::max(deadline - Clock::now(), std::chrono::nanoseconds::zero());
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    timespec timeout{};
    timeout.tv_sec = static_cast<time_t>(seconds.count());
    timeout.tv_nsec = static_cast<long>((left - seconds).count());
    const int ready = ::ppoll(watched.data(), bell != nullptr ? 2 : 1, &timeout, nullptr);
    if (ready == 0) return {};
    if (ready < 0 && errno == EINTR) continue;
    if (watched[1].revents != 0) bell->silence();
    // An error or a hang-up is for the next send or receive to report.
    const bool broken = ready < 0 || (watched[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
    return {to_read && (broken || (watched[0].revents & POLLIN) != 0),
            to_write && (broken || (watched[0].revents & POLLOUT) != 0)};
  }
}

void Socket::shut_down() noexcept {
  (void)::shutdown(fd_, SHUT_RDWR);
}

}  // namespace pail::internal
