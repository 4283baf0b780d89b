#include "tests/support/stub_server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>

namespace pail::test {

Peer::Peer(int fd)
    : fd_(fd),
      room_(64 * 1024),
      carry_(protocol::kMaxFrameBytes),
      frames_(carry_, protocol::FrameReader::Phase::hello) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Peer::~Peer() {
  hang_up();
  ::close(fd_);
}

void Peer::hang_up() {
  ::shutdown(fd_, SHUT_RDWR);
}

bool Peer::receive(bool may_wait) {
  if (failed_) return false;
  pollfd watched{fd_, POLLIN, 0};
  const auto patience_ms = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience).count();
  if (::poll(&watched, 1, may_wait ? static_cast<int>(patience_ms) : 0) <= 0) return false;
  const ssize_t received = ::recv(fd_, room_.data(), room_.size(), 0);
  if (received <= 0) {
    failed_ = true;
    return false;
  }
  frames_.feed(protocol::Bytes(room_).first(static_cast<std::size_t>(received)));
  while (const auto frame = frames_.next()) {
    if (!greeted_) {
      const auto hello = protocol::decode_hello(*frame);
      if (!hello) break;
      client_name_ = hello->client_name;
      token_ = hello->token;
      greeted_ = true;
      frames_.accept_hello();
      continue;
    }
    const auto request = protocol::decode_request(*frame);
    if (!request) {
      failed_ = true;  // the client sent what is no request: every script sees the end
      break;
    }
    ReceivedRequest copy{*request, std::string(protocol::as_text(request->key))};
    copy.key = {};
    requests_.push_back(std::move(copy));
  }
  if (frames_.error()) failed_ = true;
  if (!failed_) frames_.end_chunk();
  return !failed_;
}

bool Peer::greet(protocol::HelloReply reply) {
  while (!greeted_) {
    if (!receive(true)) return false;
  }
  reply.tag = 1;
  reply.max_frame_bytes = protocol::kMaxFrameBytes;
  reply.max_key_bytes = protocol::kMaxKeyBytes;
  std::array<std::byte, protocol::kMaxErrorReplyBytes> bytes;
  const std::size_t size = protocol::encode(reply, bytes);
  send(protocol::Bytes(bytes).first(size));
  return true;
}

std::optional<ReceivedRequest> Peer::next() {
  while (returned_ == requests_.size()) {
    if (!receive(true)) return std::nullopt;
  }
  return requests_[returned_++];
}

std::size_t Peer::arrived() {
  receive(false);
  return requests_.size() - returned_;
}

void Peer::send(protocol::Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the client left; the script will see it by itself
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
}

void Peer::send(const protocol::Reply& reply) {
  send(to_bytes(reply));
}

bool Peer::wait_for_end() {
  while (receive(true)) {
  }
  return failed_;
}

protocol::Reply admitted(const protocol::Request& request) {
  protocol::Reply reply;
  reply.op = request.op;
  reply.tag = request.tag;
  reply.granted = request.op == protocol::Op::take ? request.cost : 0;
  return reply;
}

std::vector<std::byte> to_bytes(const protocol::Reply& reply) {
  std::vector<std::byte> bytes(protocol::kReplyHeaderBytes + protocol::kMaxErrorTextBytes);
  bytes.resize(protocol::encode(reply, bytes));
  return bytes;
}

StubServer::StubServer(Script script) : script_(std::move(script)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size_bytes = sizeof address;
  if (listener_ < 0 || ::bind(listener_, generic, size_bytes) != 0 ||
      ::listen(listener_, 128) != 0 || ::getsockname(listener_, generic, &size_bytes) != 0) {
    throw std::runtime_error("the stub server cannot listen");
  }
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  acceptor_ = std::thread([this] { accept_connections(); });
}

StubServer::~StubServer() {
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& script : scripts_) script.join();
  ::close(listener_);
}

void StubServer::accept_connections() {
  for (;;) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) return;
    const std::lock_guard lock(mutex_);
    scripts_.emplace_back([this, fd] {
      Peer peer(fd);
      script_(peer);
    });
  }
}

}  // namespace pail::test
