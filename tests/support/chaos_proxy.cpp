#include "tests/support/chaos_proxy.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "protocol/address.hpp"

namespace pail::test {
namespace {

constexpr std::size_t kBufferBytes = 16 * 1024;

int listen_on_free_port(std::string& address_text) {
  const auto any = *protocol::parse_address("127.0.0.1:0");
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (listener < 0 || ::bind(listener, any.get(), any.size_bytes) != 0 ||
      ::listen(listener, 1024) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  address_text = protocol::address_from(reinterpret_cast<sockaddr*>(&storage), size)->text;
  return listener;
}

int connect_to(const std::string& text) {
  const auto address = protocol::parse_address(text);
  if (!address) return -1;
  const int socket = ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket >= 0 && ::connect(socket, address->get(), address->size_bytes) == 0) return socket;
  ::close(socket);
  return -1;
}

// Without delay, else the kernel would put our pieces together again.
void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// The peer reads ECONNRESET, and so does a thread of ours that waits on this socket. The call is
// made by its number because the thread sanitizer takes every connect() for the making of a new
// descriptor, and the waiting thread's recv() for a race with it. To the kernel both are calls on
// one socket.
void send_reset(int socket) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  ::syscall(SYS_connect, socket, &nobody, sizeof nobody);
}

bool send_all(int socket, const char* at, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

// One connection: two sockets, and a thread for each direction. The sockets are closed when both
// threads have ended.
struct ChaosProxy::Link {
  int client = -1;
  int server = -1;
  Fate fate = Fate::lives;
  bool fate_is_upward = true;   // the direction whose bytes decide when
  std::uint64_t fate_at = 0;    // bytes
  std::uint64_t stall_at[2]{};  // by direction
  std::uint64_t seed[2]{};
  std::atomic<bool> has_vanished{false};
  std::atomic<int> pumps{2};
  std::thread threads[2];

  ~Link() {
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }
  void cut() const {
    ::shutdown(client, SHUT_RDWR);
    ::shutdown(server, SHUT_RDWR);
  }
  void reset() const {
    send_reset(client);
    send_reset(server);
  }
  [[nodiscard]] bool is_fateful(bool is_upward) const {
    return fate != Fate::lives && fate_is_upward == is_upward;
  }
  void leave() {
    if (--pumps != 0) return;
    ::close(client);
    ::close(server);
  }
};

ChaosProxy::ChaosProxy(std::string upstream, ChaosOptions options, std::uint64_t stream)
    : upstream_(std::move(upstream)), options_(std::move(options)), random_(stream) {
  listener_ = listen_on_free_port(address_);
  acceptor_ = std::thread([this] { accept_connections(); });
}

ChaosProxy::~ChaosProxy() {
  is_over_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  ::close(listener_);
  for (const auto& link : links_) {
    // A link whose pumps have both left has closed its sockets, and their numbers may be others'.
    if (link->pumps.fetch_add(1) > 0) link->cut(), link->leave();
  }
  links_.clear();
}

void ChaosProxy::accept_connections() {
  while (!is_over_) {
    const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) {
      if (is_over_ || errno == EINVAL) return;
      continue;
    }
    const int server = connect_to(upstream_);
    if (server < 0) {
      ::close(client);
      continue;
    }
    ++connections_;
    send_at_once(client);
    send_at_once(server);
    auto link = std::make_unique<Link>();
    link->client = client;
    link->server = server;
    link->fate = options_.fates[random_.below(options_.fates.size())];
    link->fate_is_upward = random_.one_in(2);
    link->fate_at = random_.below(options_.fate_within_bytes + 1);
    for (const bool is_upward : {false, true}) {
      link->stall_at[is_upward] = random_.below(options_.fate_within_bytes + 1);
      link->seed[is_upward] = random_.next();
    }
    for (const bool is_upward : {false, true}) {
      link->threads[is_upward] = std::thread([this, &link = *link, is_upward] {
        pump(link, is_upward);
        link.leave();
      });
    }
    links_.push_back(std::move(link));
  }
}

void ChaosProxy::pump(Link& link, bool is_upward) {
  Random random(link.seed[is_upward]);
  std::uint64_t passed = 0;
  while (pass(link, is_upward, random, passed)) {
  }
}

// One helping from one side to the other. False: this direction has ended, and the sides know what
// they are to know.
bool ChaosProxy::pass(Link& link, bool is_upward, Random& random, std::uint64_t& passed) {
  const int from = is_upward ? link.client : link.server;
  const int to = is_upward ? link.server : link.client;
  char buffer[kBufferBytes];
  const ssize_t received = ::recv(from, buffer, sizeof buffer, 0);
  if (link.has_vanished) return received > 0;
  if (received <= 0) {
    if (received < 0 && errno == ECONNRESET) link.reset();
    ::shutdown(to, SHUT_WR);
    return false;
  }
  for (std::size_t at = 0; at < static_cast<std::size_t>(received);) {
    const std::size_t left = static_cast<std::size_t>(received) - at;
    std::size_t piece = std::min(left, random.between(1, options_.max_piece_bytes));
    if (link.is_fateful(is_upward)) {
      if (passed == link.fate_at) {
        meet_fate(link, is_upward);
        return false;
      }
      piece = std::min(piece, link.fate_at - passed);
    }
    if (options_.max_delay_ms > 0 && random.one_in(options_.delay_one_in)) {
      ::poll(nullptr, 0, static_cast<int>(random.between(1, options_.max_delay_ms)));
    }
    const std::uint64_t stall_at = link.stall_at[is_upward];
    if (options_.stall_ms > 0 && passed <= stall_at && stall_at < passed + piece) {
      ::poll(nullptr, 0, static_cast<int>(options_.stall_ms));
    }
    if (!send_all(to, buffer + at, piece)) {
      ::shutdown(from, SHUT_RD);
      return false;
    }
    at += piece;
    passed += piece;
  }
  return true;
}

void ChaosProxy::meet_fate(Link& link, bool is_upward) {
  ++fates_[static_cast<std::size_t>(link.fate)];
  switch (link.fate) {
    case Fate::lives:
      return;
    case Fate::half_close:
      ::shutdown(is_upward ? link.server : link.client, SHUT_WR);
      return;
    case Fate::reset:
      link.reset();
      return;
    case Fate::drop:
      link.cut();
      return;
    case Fate::vanish: {
      link.has_vanished = true;
      char buffer[kBufferBytes];
      while (::recv(is_upward ? link.client : link.server, buffer, sizeof buffer, 0) > 0) {
      }
      link.cut();  // one side has given up: the other may go
      return;
    }
  }
}

}  // namespace pail::test
