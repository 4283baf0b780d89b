#include "server/io/listener.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "server/io/error.hpp"

namespace pail::io {
namespace {

// A dead peer is found out within two minutes, whether it owes us bytes or is silent.
constexpr int kKeepAliveIdleS = 60;
constexpr int kKeepAliveIntervalS = 15;
constexpr int kKeepAliveProbes = 4;
constexpr unsigned kUserTimeoutMs = 120'000;

// Closes a descriptor unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

bool set(int socket, int level, int option, int value) noexcept {
  return ::setsockopt(socket, level, option, &value, sizeof value) == 0;
}

tl::expected<void, IoError> set_tcp_options(int socket, const ListenOptions& options) {
  // All are inherited by accepted sockets. Only what the operator asked for may fail the start.
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  if (options.receive_buffer_bytes > 0) {
    set(socket, SOL_SOCKET, SO_RCVBUF, options.receive_buffer_bytes);
  }
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalS);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
  const std::string& congestion = options.congestion_control;
  if (!congestion.empty() && ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                          static_cast<socklen_t>(congestion.size())) != 0) {
    IoError error = error_of("TCP congestion control \"" + congestion + "\"", errno);
    error.text += "; net.ipv4.tcp_available_congestion_control lists what this kernel has";
    return tl::unexpected(std::move(error));
  }
  return {};
}

tl::expected<int, IoError> bind_one(const protocol::Address& address, bool share_port,
                                    const ListenOptions& options) {
  const int flags = SOCK_STREAM | SOCK_CLOEXEC | (options.non_blocking ? SOCK_NONBLOCK : 0);
  Descriptor socket(::socket(address.family(), flags, 0));
  if (socket.get() < 0) return tl::unexpected(error_of("socket for " + address.text, errno));
  if (address.is_tcp) {
    // Binds although connections of an earlier run are still in TIME_WAIT.
    set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (share_port) set(socket.get(), SOL_SOCKET, SO_REUSEPORT, 1);
    if (address.family() == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (auto result = set_tcp_options(socket.get(), options); !result) {
      return tl::unexpected(result.error());
    }
  }
  if (::bind(socket.get(), address.get(), address.size_bytes) != 0) {
    return tl::unexpected(error_of("cannot listen on " + address.text, errno));
  }
  return socket.release();
}

tl::expected<void, IoError> start_listening(int socket, const protocol::Address& address,
                                            const ListenOptions& options) {
  if (::listen(socket, options.backlog) == 0) return {};
  return tl::unexpected(error_of("cannot listen on " + address.text, errno));
}

// Binding exclusively fails where others listen, even those that share their port.
tl::expected<void, IoError> check_that_nobody_listens(const protocol::Address& address,
                                                      const ListenOptions& options) {
  if (address.port() == 0) return {};
  auto socket = bind_one(address, false, options);
  if (!socket) return tl::unexpected(socket.error());
  const Descriptor closes(*socket);
  return start_listening(*socket, address, options);
}

// Held by whoever makes or removes the file of a Unix socket: two servers that start at once would
// each find a file that nobody listens on yet, and remove the other's. A lock on the directory, so
// that nothing is left behind. Without permission to read the directory there is none; then nobody
// removes what is not its own.
class PathLock {
 public:
  explicit PathLock(const std::string& path)
      : directory_(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    for (int i = 0; i < kAttempts && directory_.get() >= 0 && !is_held_; ++i) {
      if (i > 0) ::usleep(kPauseUs);
      is_held_ = ::flock(directory_.get(), LOCK_EX | LOCK_NB) == 0;
    }
  }
  [[nodiscard]] bool is_held() const noexcept { return is_held_; }

 private:
  static constexpr int kAttempts = 200;
  static constexpr unsigned kPauseUs = 10'000;

  static std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash + 1);
  }

  Descriptor directory_;
  bool is_held_ = false;
};

// A server that was killed leaves its file behind; one that runs answers.
tl::expected<void, IoError> remove_stale_file(const protocol::Address& address,
                                              const PathLock& lock) {
  const std::string path = address.unix_path();
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return tl::unexpected(error_of(address.text + " is there and not a socket", EEXIST));
  }
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), address.get(), address.size_bytes) == 0 || errno == EAGAIN) {
    return tl::unexpected(error_of("cannot listen on " + address.text, EADDRINUSE));
  }
  if (errno != ECONNREFUSED) return {};  // bind() says what it is
  if (!lock.is_held()) {
    return tl::unexpected(error_of(
        address.text + " is there, nobody listens, and its directory cannot be locked", EACCES));
  }
  ::unlink(path.c_str());
  return {};
}

// Which file is there now: its device and number.
std::optional<Listener::File> file_at(const protocol::Address& address) {
  struct stat status {};
  if (::lstat(address.unix_path().c_str(), &status) != 0) return std::nullopt;
  return Listener::File{status.st_dev, status.st_ino};
}

protocol::Address bound_address(int socket, const protocol::Address& asked) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return asked;
  return protocol::address_from(reinterpret_cast<sockaddr*>(&storage), size).value_or(asked);
}

}  // namespace

tl::expected<Listener, IoError> Listener::open(const protocol::Address& address, std::size_t count,
                                               const ListenOptions& options) {
  constexpr std::uint32_t kPauseMs = 10;
  for (std::uint32_t waited_ms = 0;; waited_ms += kPauseMs) {
    auto listener = try_to_open(address, count, options);
    const bool is_in_use = !listener && listener.error().code == EADDRINUSE;
    if (!is_in_use || waited_ms >= options.patience_ms) return listener;
    ::usleep(kPauseMs * 1000);
  }
}

tl::expected<Listener, IoError> Listener::try_to_open(const protocol::Address& address,
                                                      std::size_t count,
                                                      const ListenOptions& options) {
  Listener listener;
  listener.address_ = address;
  std::optional<PathLock> lock;  // until we listen: then everybody sees that the file is ours
  if (!address.is_tcp) lock.emplace(address.unix_path());
  auto ready = address.is_tcp ? check_that_nobody_listens(address, options)
                              : remove_stale_file(address, *lock);
  if (!ready) return tl::unexpected(ready.error());

  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && !address.is_tcp) {
      const int copy = ::fcntl(listener.descriptors_[0], F_DUPFD_CLOEXEC, 0);
      if (copy < 0) return tl::unexpected(error_of("dup", errno));
      listener.descriptors_.push_back(copy);
      continue;
    }
    auto socket = bind_one(listener.address_, count > 1, options);
    if (!socket) return tl::unexpected(socket.error());
    listener.descriptors_.push_back(*socket);
    if (!address.is_tcp) listener.file_ = file_at(address);
    // With port 0 the first one decides for all.
    if (i == 0 && address.is_tcp) listener.address_ = bound_address(*socket, address);
    if (auto result = start_listening(*socket, listener.address_, options); !result) {
      return tl::unexpected(result.error());
    }
  }
  return listener;
}

Listener::Listener(Listener&& other) noexcept
    : address_(std::move(other.address_)),
      descriptors_(std::exchange(other.descriptors_, {})),
      file_(std::exchange(other.file_, {})) {}

Listener::~Listener() {
  close();
}

// While it drains, nobody listens any more, and another server may have taken the path over: that
// one's file stays. Removed before the descriptors go, since they keep the file's number from being
// given to another.
void Listener::close() noexcept {
  if (file_) {
    const PathLock lock(address_.unix_path());
    if (file_at(address_) == file_) ::unlink(address_.unix_path().c_str());
    file_.reset();
  }
  for (const int descriptor : descriptors_) ::close(descriptor);
  descriptors_.clear();
}

socklen_t peer_of(int socket, sockaddr_storage& peer) noexcept {
  socklen_t size = sizeof peer;
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) == 0 ? size : 0;
}

bool is_peer_local(int socket) noexcept {
  sockaddr_storage peer{};
  const socklen_t size = peer_of(socket, peer);
  if (size == 0) return false;
  const auto address = protocol::address_from(reinterpret_cast<const sockaddr*>(&peer), size);
  return address && address->is_loopback;
}

void shut_down_sending(int socket) noexcept {
  ::shutdown(socket, SHUT_WR);
}
void shut_down_receiving(int socket) noexcept {
  ::shutdown(socket, SHUT_RD);
}
void shut_down(int socket) noexcept {
  ::shutdown(socket, SHUT_RDWR);
}

}  // namespace pail::io
