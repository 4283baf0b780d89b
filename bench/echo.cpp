#include "bench/echo.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "bench/ring.hpp"
#include "bench/socket.hpp"
#include "protocol/codec.hpp"
#include "protocol/wire.hpp"

namespace pail::bench {
namespace {

using protocol::kReplyHeaderBytes;
using protocol::kRequestHeaderBytes;

constexpr unsigned kEntries = 4096;
constexpr unsigned kReceiveBuffers = 1024;
constexpr std::size_t kMaxConnections = 16 * 1024;  // by descriptor number
constexpr std::size_t kMaxWaitingBytes =
    4 * 1024 * 1024;  // of replies to one connection; then it is closed
constexpr std::uint64_t kOpAndTag = 0xFFFF'FFFF'00FF'0000;  // of a frame's first 8 bytes

struct Connection {
  int fd = -1;
  bool has_said_hello = false;
  bool is_receiving = false;  // the receive is armed
  bool is_sending = false;    // `in_flight` belongs to the kernel
  bool is_closing = false;
  bool is_dirty = false;    // has replies that this turn has to flush
  std::size_t carried = 0;  // bytes of an unfinished frame in `carry`
  std::size_t waiting = 0;  // bytes of replies in `replies`
  std::vector<std::byte> replies;
  std::vector<std::byte> in_flight;
  std::array<std::byte, protocol::kMaxHelloBytes + protocol::kMaxRequestBytes> carry;
};

using ReplyBytes = std::array<std::byte, kReplyHeaderBytes>;

// An admitted take with operation and tag left 0.
ReplyBytes reply_template() {
  ReplyBytes bytes;
  protocol::Reply reply;
  reply.op = protocol::Op{0};
  reply.granted = 1;
  reply.remaining = 1;
  reply.limit = 2;
  protocol::encode(reply, bytes);
  return bytes;
}

}  // namespace

struct EchoServer::Impl {
  Ring ring;
  Socket listener;
  protocol::Address address;
  std::vector<std::unique_ptr<Connection>> connections;  // by descriptor
  std::vector<std::uint32_t> dirty;
  const ReplyBytes reply = reply_template();

  void arm_accept() noexcept {
    io_uring_sqe* entry = ring.next_entry();
    io_uring_prep_multishot_accept(entry, listener.fd(), nullptr, nullptr, SOCK_CLOEXEC);
    entry->user_data = Completion{Completion::Kind::accept, 0}.encode();
  }

  void on_accept(const io_uring_cqe& completion) {
    if (completion.res >= 0) {
      const auto slot = static_cast<std::uint32_t>(completion.res);
      if (slot >= kMaxConnections) {
        ::close(completion.res);
      } else {
        auto& connection = connections[slot];
        // A descriptor comes back only after it was closed, so nothing of the former one is in
        // flight.
        connection = std::make_unique<Connection>();
        connection->fd = completion.res;
        connection->is_receiving = true;
        ring.arm_receive(connection->fd, false, slot);
      }
    }
    if ((completion.flags & IORING_CQE_F_MORE) == 0) arm_accept();
  }

  // The first frame. False: that is no HELLO, or it does not fit into this reply buffer.
  bool answer_hello(Connection& connection, protocol::Bytes frame) {
    const auto hello = protocol::decode_hello(frame);
    if (!hello) return false;
    protocol::HelloReply answer;
    answer.tag = hello->tag;
    answer.max_frame_bytes = protocol::kMaxFrameBytes;
    answer.max_key_bytes = protocol::kMaxKeyBytes;
    connection.waiting +=
        protocol::encode(answer, protocol::Buffer(connection.replies).subspan(connection.waiting));
    connection.has_said_hello = true;
    return true;
  }

  // Answers the whole frames of `bytes`, returns how many bytes they were; nothing if the size of
  // one is impossible. This loop is all that the server does.
  [[nodiscard]] std::ptrdiff_t answer_frames(Connection& connection, protocol::Bytes bytes) {
    const std::byte* at = bytes.data();
    const std::byte* const end = at + bytes.size();
    // Room for the most replies that these bytes can ask for, and for the answer to HELLO.
    const std::size_t room = (bytes.size() / kRequestHeaderBytes) * kReplyHeaderBytes + 512;
    if (connection.replies.size() < connection.waiting + room) {
      connection.replies.resize(connection.waiting + room);
    }
    if (!connection.has_said_hello) {
      if (bytes.size() < protocol::kFramePrefixBytes) return 0;
      const std::size_t size = protocol::wire::load<std::uint16_t>(at);
      if (size < protocol::kFramePrefixBytes || size > protocol::kMaxHelloBytes) return -1;
      if (size > bytes.size()) return 0;
      if (!answer_hello(connection, bytes.first(size))) return -1;
      at += size;
    }
    std::byte* out = connection.replies.data() + connection.waiting;
    while (end - at >= static_cast<std::ptrdiff_t>(kRequestHeaderBytes)) {
      const auto prefix = protocol::wire::load<std::uint64_t>(at);
      const std::size_t size = prefix & 0xFFFF;
      if (size < kRequestHeaderBytes || size > protocol::kMaxRequestBytes) return -1;
      if (static_cast<std::size_t>(end - at) < size) break;
      std::memcpy(out, reply.data(), kReplyHeaderBytes);
      protocol::wire::store<std::uint64_t>(out, (prefix & kOpAndTag) | kReplyHeaderBytes);
      out += kReplyHeaderBytes;
      at += size;
    }
    connection.waiting = static_cast<std::size_t>(out - connection.replies.data());
    return at - bytes.data();
  }

  // False: the connection has to go.
  [[nodiscard]] bool consume(Connection& connection, protocol::Bytes chunk) {
    while (connection.carried != 0) {
      // Top up the frame that an earlier chunk began; what is not needed of it stays in the chunk.
      const std::size_t before = connection.carried;
      const std::size_t taken = std::min(chunk.size(), connection.carry.size() - before);
      if (taken != 0) std::memcpy(connection.carry.data() + before, chunk.data(), taken);
      const auto used =
          answer_frames(connection, protocol::Bytes(connection.carry.data(), before + taken));
      if (used < 0) return false;
      if (used == 0) {
        connection.carried += taken;
        return connection.carried < connection.carry.size();
      }
      // Whole frames were used, the first of them the carried one: the chunk goes on behind them.
      chunk = chunk.subspan(static_cast<std::size_t>(used) - before);
      connection.carried = 0;
    }
    const auto used = answer_frames(connection, chunk);
    if (used < 0) return false;
    const protocol::Bytes rest = chunk.subspan(static_cast<std::size_t>(used));
    if (rest.size() > connection.carry.size()) return false;
    if (!rest.empty()) std::memcpy(connection.carry.data(), rest.data(), rest.size());
    connection.carried = rest.size();
    return connection.waiting <= kMaxWaitingBytes;
  }

  void on_receive(const io_uring_cqe& completion, std::uint32_t slot) {
    Connection& connection = *connections[slot];
    const bool is_over = completion.res <= 0 && completion.res != -ENOBUFS;
    if (completion.res > 0) {
      const bool is_good = connection.is_closing || consume(connection, ring.received(completion));
      ring.give_back(completion);
      if (!is_good) start_closing(connection);
      if (!connection.is_dirty) {
        connection.is_dirty = true;
        dirty.push_back(slot);
      }
    }
    if ((completion.flags & IORING_CQE_F_MORE) == 0) {
      connection.is_receiving = !is_over && !connection.is_closing;
      if (connection.is_receiving) ring.arm_receive(connection.fd, false, slot);
      if (is_over) connection.is_closing = true;
    }
    close_if_idle(connection);
  }

  void on_send(const io_uring_cqe& completion, std::uint32_t slot) {
    Connection& connection = *connections[slot];
    connection.is_sending = false;
    if (completion.res < 0) start_closing(connection);
    flush(slot);
    close_if_idle(connection);
  }

  // The armed receive ends with a completion of its own once the socket is shut.
  void start_closing(Connection& connection) noexcept {
    connection.is_closing = true;
    shutdown(connection.fd, SHUT_RDWR);
  }
  void close_if_idle(Connection& connection) noexcept {
    if (!connection.is_closing || connection.is_receiving || connection.is_sending) return;
    if (connection.fd >= 0) ::close(connection.fd);
    connection.fd = -1;
  }

  void flush(std::uint32_t slot) noexcept {
    Connection& connection = *connections[slot];
    if (connection.is_sending || connection.waiting == 0 || connection.is_closing) return;
    connection.replies.swap(connection.in_flight);
    io_uring_sqe* entry = ring.next_entry();
    io_uring_prep_send(entry, connection.fd, connection.in_flight.data(), connection.waiting,
                       MSG_WAITALL | MSG_NOSIGNAL);
    entry->user_data = Completion{Completion::Kind::send, slot}.encode();
    connection.waiting = 0;
    connection.is_sending = true;
  }

  void handle(const io_uring_cqe& completion) {
    const Completion what = Completion::decode(completion.user_data);
    switch (what.kind) {
      case Completion::Kind::accept:
        on_accept(completion);
        break;
      case Completion::Kind::receive:
        on_receive(completion, what.slot);
        break;
      case Completion::Kind::send:
        on_send(completion, what.slot);
        break;
    }
  }

  void flush_dirty() noexcept {
    for (const std::uint32_t slot : dirty) {
      connections[slot]->is_dirty = false;
      flush(slot);
    }
    dirty.clear();
  }
};

EchoServer::EchoServer() : impl_(std::make_unique<Impl>()) {}
EchoServer::~EchoServer() = default;

tl::expected<void, std::string> EchoServer::open(const EchoOptions& options) {
  if (auto opened = impl_->ring.open(kEntries, kReceiveBuffers); !opened) return opened;
  auto listener = listen_on(options.listen, options.congestion);
  if (!listener) return tl::unexpected(listener.error());
  impl_->listener = std::move(*listener);
  auto address = address_of(impl_->listener);
  if (!address) return tl::unexpected(address.error());
  impl_->address = std::move(*address);
  impl_->connections.resize(kMaxConnections);
  impl_->dirty.reserve(kMaxConnections);
  return {};
}

const protocol::Address& EchoServer::address() const noexcept {
  return impl_->address;
}

tl::expected<void, std::string> EchoServer::run(const volatile std::sig_atomic_t& stop) {
  Impl& impl = *impl_;
  impl.arm_accept();
  while (stop == 0) {
    const int submitted = io_uring_submit_and_wait(impl.ring.get(), 1);
    if (submitted < 0 && submitted != -EINTR) {
      return tl::unexpected(fmt::format("io_uring: {}", std::strerror(-submitted)));
    }
    io_uring_cqe* completion = nullptr;
    unsigned head = 0;
    unsigned count = 0;
    io_uring_for_each_cqe(impl.ring.get(), head, completion) {
      impl.handle(*completion);
      ++count;
    }
    io_uring_cq_advance(impl.ring.get(), count);
    impl.flush_dirty();
  }
  return {};
}

}  // namespace pail::bench
