#include "bench/crowds/deadline_load.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protocol/wire.hpp"

namespace pail::bench {
namespace {

// A socket takes nothing while anything in it has not left yet: what waits does so where it can be
// dropped.
constexpr int kUnsentBytes = 1;
constexpr std::size_t kReceiveBytes = 256 * 1024;
constexpr std::uint32_t kMaxBatch = 256;
constexpr int kMaxReady = 256;
constexpr std::size_t kKeyBytes = 16;

std::string system_error(const char* what) {
  return std::string(what) + ": " + std::strerror(errno);
}

}  // namespace

DeadlineCounts& DeadlineCounts::operator+=(const DeadlineCounts& more) noexcept {
  offered += more.offered;
  dropped += more.dropped;
  good += more.good;
  late += more.late;
  expired += more.expired;
  overloaded += more.overloaded;
  other += more.other;
  late_to_offer_us = std::max(late_to_offer_us, more.late_to_offer_us);
  return *this;
}

std::uint64_t DeadlineLoad::now_us() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
          .count());
}

tl::expected<void, std::string> DeadlineLoad::open() {
  make_frame();
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) return tl::unexpected(system_error("epoll_create1"));
  wires_.resize(options_.connections);
  for (std::uint32_t i = 0; i < wires_.size(); ++i) {
    Wire& wire = wires_[i];
    auto socket = connect_to(options_.server, options_.congestion);
    if (!socket) return tl::unexpected(socket.error());
    wire.socket = std::move(*socket);
    wire.in.resize(kReceiveBytes);
    wire.due_us.resize(kWindow);
    if (auto greeted = greet(wire); !greeted) return greeted;
    ::setsockopt(wire.socket.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
                 sizeof kUnsentBytes);
    ::fcntl(wire.socket.fd(), F_SETFL, O_NONBLOCK);
    epoll_event watched{};
    watched.events = EPOLLIN;
    watched.data.u32 = i;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, wire.socket.fd(), &watched) != 0) {
      return tl::unexpected(system_error("epoll_ctl"));
    }
  }
  return {};
}

// The server's clock was read before its answer came: what it shows now is at least that plus the
// time since then. So the deadline that is said is never later than the one that is meant.
tl::expected<void, std::string> DeadlineLoad::greet(Wire& wire) {
  std::array<std::byte, protocol::kMaxHelloBytes> room;
  protocol::Hello hello;
  hello.client_name = "overload-bench";
  const std::size_t size = protocol::encode(hello, room);
  if (::send(wire.socket.fd(), room.data(), size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    return tl::unexpected(system_error("send HELLO"));
  }
  const ssize_t received =
      ::recv(wire.socket.fd(), room.data(), protocol::kHelloReplyHeaderBytes, MSG_WAITALL);
  const std::uint64_t now = now_us();
  if (received != static_cast<ssize_t>(protocol::kHelloReplyHeaderBytes)) {
    return tl::unexpected(std::string("no answer to HELLO"));
  }
  const auto reply =
      protocol::decode_hello_reply(protocol::Bytes(room).first(protocol::kHelloReplyHeaderBytes));
  if (!reply || reply->status != protocol::Status::ok) {
    return tl::unexpected(std::string("HELLO was refused"));
  }
  // Of several such bounds the greatest is the nearest to the truth.
  server_ahead_us_ = std::max(server_ahead_us_, static_cast<std::int64_t>(reply->clock_us - now));
  return {};
}

void DeadlineLoad::make_frame() {
  static constexpr std::byte kKey[kKeyBytes]{};
  protocol::Request request;
  request.op = protocol::Op::take;
  request.cost = 1;
  request.has_inline_limit = true;
  request.inline_limit = {1'000'000'000, 1'000'000'000, 1'000'000'000};  // admits all
  request.key = kKey;
  frame_bytes_ = protocol::encode(request, frame_);
}

tl::expected<std::vector<DeadlineCounts>, std::string> DeadlineLoad::run(
    double per_second, std::chrono::milliseconds duration, std::chrono::milliseconds part) {
  std::vector<DeadlineCounts> parts;
  const double gap_us = 1e6 / per_second;
  const std::uint64_t began_us = now_us();
  const auto duration_us = static_cast<std::uint64_t>(duration.count()) * 1000;
  const auto part_us = static_cast<std::uint64_t>(part.count()) * 1000;
  std::uint64_t offered = 0;
  std::uint64_t next_part_us = began_us + part_us;
  counts_ = {};
  while (true) {
    const std::uint64_t now = now_us();
    turn_began_us_ = now;
    if (now >= next_part_us) {
      parts.push_back(std::exchange(counts_, {}));
      next_part_us += part_us;
    }
    if (now - began_us >= duration_us) break;
    const auto due =
        static_cast<std::uint64_t>(static_cast<double>(now - began_us) / gap_us) - offered;
    // Enough for all connections at once; who is far behind puts more into each.
    const auto batch = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(due / wires_.size(), options_.batch, kMaxBatch));
    for (std::uint64_t left = due; left >= options_.batch;) {
      const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, batch));
      offer(wires_[cursor_], count,
            static_cast<double>(began_us) + static_cast<double>(offered) * gap_us, gap_us);
      cursor_ = (cursor_ + 1) % static_cast<std::uint32_t>(wires_.size());
      offered += count;
      left -= count;
    }
    epoll_event ready[kMaxReady];
    const int count = ::epoll_wait(epoll_, ready, kMaxReady, 0);
    for (int i = 0; i < count; ++i) {
      if (!receive(wires_[ready[i].data.u32])) {
        return tl::unexpected(std::string("the server hung up"));
      }
    }
    for (Wire& wire : wires_) {
      if (!wire.out.empty() && !flush(wire)) return tl::unexpected(system_error("send"));
    }
  }
  return parts;
}

void DeadlineLoad::offer(Wire& wire, std::uint32_t count, double first_due_us, double gap_us) {
  counts_.offered += count;
  counts_.late_to_offer_us =
      std::max(counts_.late_to_offer_us, turn_began_us_ - static_cast<std::uint64_t>(first_due_us));
  if (!wire.out.empty() || wire.next_tag - 1 - wire.answered + count > kWindow) {
    counts_.dropped += count;
    return;
  }
  wire.out.resize(count * frame_bytes_);
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto due_us = static_cast<std::uint64_t>(first_due_us + i * gap_us);
    std::byte* const at = wire.out.data() + i * frame_bytes_;
    std::memcpy(at, frame_.data(), frame_bytes_);
    const std::uint32_t tag = wire.next_tag++;
    wire.due_us[tag % kWindow] = due_us;
    protocol::wire::store(at + protocol::request_at::kTag, tag);
    if (options_.has_deadlines) {
      const auto expires =
          static_cast<std::uint32_t>(due_us + options_.deadline_us - options_.margin_us +
                                     static_cast<std::uint64_t>(server_ahead_us_));
      protocol::wire::store(at + protocol::request_at::kExpires, expires != 0 ? expires : 1);
    }
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t key = (random_ >> 33) % options_.keys;
    protocol::wire::store(at + frame_bytes_ - sizeof key, key);
  }
  static_cast<void>(flush(wire));  // an error shows again when it is read
}

bool DeadlineLoad::flush(Wire& wire) noexcept {
  const ssize_t sent = ::send(wire.socket.fd(), wire.out.data() + wire.sent,
                              wire.out.size() - wire.sent, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN;
  wire.sent += static_cast<std::size_t>(sent);
  if (wire.sent == wire.out.size()) wire.out.clear(), wire.sent = 0;
  return true;
}

bool DeadlineLoad::receive(Wire& wire) noexcept {
  const ssize_t size =
      ::recv(wire.socket.fd(), wire.in.data() + wire.in_bytes, wire.in.size() - wire.in_bytes, 0);
  if (size <= 0) return size < 0 && errno == EAGAIN;
  read_us_ = now_us();
  wire.in_bytes += static_cast<std::size_t>(size);
  std::size_t at = 0;
  while (wire.in_bytes - at >= protocol::kReplyHeaderBytes) {
    const std::size_t reply_bytes = protocol::wire::load<std::uint16_t>(wire.in.data() + at);
    if (wire.in_bytes - at < reply_bytes) break;
    judge(wire, protocol::Bytes(wire.in).subspan(at, reply_bytes));
    at += reply_bytes;
  }
  std::memmove(wire.in.data(), wire.in.data() + at, wire.in_bytes - at);
  wire.in_bytes -= at;
  return true;
}

void DeadlineLoad::judge(Wire& wire, protocol::Bytes reply) noexcept {
  const auto tag = protocol::wire::load<std::uint32_t>(reply.data() + protocol::reply_at::kTag);
  ++wire.answered;
  const bool is_in_time = read_us_ <= wire.due_us[tag % kWindow] + options_.deadline_us;
  switch (static_cast<protocol::Status>(reply[protocol::reply_at::kStatus])) {
    case protocol::Status::ok:
      ++(is_in_time ? counts_.good : counts_.late);
      return;
    case protocol::Status::expired:
      ++counts_.expired;
      return;
    case protocol::Status::overloaded:
      ++counts_.overloaded;
      return;
    default:
      ++counts_.other;
  }
}

}  // namespace pail::bench
