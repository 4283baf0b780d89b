#include "tests/support/raw_client.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "protocol/address.hpp"
#include "protocol/wire.hpp"

namespace pail::test {
namespace {

constexpr int kPatienceMs = std::chrono::milliseconds(kRawPatience).count();

bool wait_for(int fd, short what, int patience_ms = kPatienceMs) {
  pollfd poll_for{fd, what, 0};
  int ready = 0;
  do ready = ::poll(&poll_for, 1, patience_ms);
  while (ready < 0 && errno == EINTR);
  return ready == 1;
}

}  // namespace

RawClient::RawClient(const std::string& address_text, const RawOptions& options) {
  const auto address = protocol::parse_address(address_text);
  if (!address) throw std::runtime_error(address.error());
  fd_ = ::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) throw std::runtime_error("socket");
  if (options.receive_buffer_bytes != 0) {
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &options.receive_buffer_bytes, sizeof(int));
  }
  if (::connect(fd_, address->get(), address->size_bytes) != 0) {
    const std::string reason = std::strerror(errno);
    ::close(fd_);
    throw std::runtime_error("connect " + address_text + ": " + reason);
  }
}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      received_(std::move(other.received_)),
      read_(other.read_),
      last_frame_(std::move(other.last_frame_)) {}

RawClient::~RawClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawClient::send(protocol::Bytes bytes) {
  while (!bytes.empty()) {
    const std::size_t sent = send_some(bytes);
    bytes = bytes.subspan(sent);
    if (sent == 0 && (errno != EAGAIN || !wait_for(fd_, POLLOUT))) return false;
  }
  return true;
}

std::size_t RawClient::send_some(protocol::Bytes bytes) {
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

bool RawClient::can_send_soon() const {
  return wait_for(fd_, POLLOUT, 100);
}

// Until that many bytes are there to be read.
bool RawClient::fill(std::size_t wanted) {
  while (received_.size() - read_ < wanted) {
    if (read_ > 0 && read_ == received_.size()) received_.clear(), read_ = 0;
    if (!wait_for(fd_, POLLIN)) return false;
    const std::size_t before = received_.size();
    received_.resize(before + 65536);
    const ssize_t size = ::recv(fd_, received_.data() + before, 65536, 0);
    received_.resize(before + (size > 0 ? static_cast<std::size_t>(size) : 0));
    if (size <= 0) return false;
  }
  return true;
}

std::optional<Octets> RawClient::frame() {
  if (!fill(2)) return std::nullopt;
  const std::size_t size = protocol::wire::load<std::uint16_t>(received_.data() + read_);
  if (size < protocol::kFramePrefixBytes || !fill(size)) return std::nullopt;
  const auto begin = received_.begin() + static_cast<std::ptrdiff_t>(read_);
  Octets frame(begin, begin + static_cast<std::ptrdiff_t>(size));
  read_ += size;
  return frame;
}

std::optional<protocol::Reply> RawClient::reply() {
  auto next = frame();
  if (!next) return std::nullopt;
  last_frame_ = std::move(*next);
  const auto reply = protocol::decode_reply(last_frame_);
  if (!reply) return std::nullopt;
  return *reply;
}

bool RawClient::greet() {
  if (!send(hello_bytes())) return false;
  const auto answer = frame();
  if (!answer) return false;
  const auto hello = protocol::decode_hello_reply(*answer);
  return hello && hello->status == protocol::Status::ok;
}

bool RawClient::wait_for_end() {
  while (fill(1)) read_ = received_.size();
  return has_ended();
}

bool RawClient::has_ended() {
  std::byte one;
  const ssize_t size = ::recv(fd_, &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
}

void RawClient::finish_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void RawClient::stop() {
  ::shutdown(fd_, SHUT_RDWR);
}

void RawClient::abort() {
  const linger reset{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  ::close(std::exchange(fd_, -1));
}

Octets hello_bytes(std::string_view client_name, std::string_view token) {
  protocol::Hello hello;
  hello.tag = 1;
  hello.client_name = client_name;
  hello.token = token;
  Octets bytes(protocol::kMaxHelloBytes);
  bytes.resize(protocol::encode(hello, bytes));
  return bytes;
}

Octets request_bytes(const protocol::Request& request) {
  Octets bytes(protocol::kMaxRequestBytes);
  bytes.resize(protocol::encode(request, bytes));
  return bytes;
}

protocol::Request slow_take(std::uint32_t tag, std::string_view key, std::uint32_t burst,
                            std::uint32_t cost) {
  protocol::Request request;
  request.op = protocol::Op::take;
  request.tag = tag;
  request.cost = cost;
  request.has_inline_limit = true;
  request.inline_limit = {std::uint64_t{24} * 3600 * 1'000'000'000, burst / 1000 + 1, burst};
  request.key = protocol::as_body(key);
  return request;
}

}  // namespace pail::test
