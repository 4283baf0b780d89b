#include "bench/generator.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "bench/ring.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

constexpr unsigned kEntries = 4096;

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// Enough that all connections can have a burst lie in them at once, few enough to stay in the
// cache.
unsigned receive_buffers(std::uint32_t connections, std::uint32_t pipeline) {
  const std::size_t burst_bytes = std::size_t{pipeline} * protocol::kReplyHeaderBytes;
  const std::size_t a_connection = burst_bytes / Ring::kBufferBytes + 1;
  const std::size_t wanted = std::clamp<std::size_t>(connections * a_connection, 64, 4096);
  return static_cast<unsigned>(std::bit_ceil(wanted));
}

enum class Phase : std::uint8_t { warm_up, measure, drain };

}  // namespace

struct Generator::Connection {
  Socket socket;
  ReplyChecker checker{1};
  std::vector<std::byte> batch;  // `pipeline` frames; the kernel's while the send is under way
  std::uint32_t next_tag = 1;
  std::uint32_t in_flight = 0;  // requests sent and not yet answered
  std::uint64_t sent_ns = 0;
};

struct Generator::Impl {
  Impl(Generator& owner, const LoadOptions& load_options, std::uint32_t thread_index)
      : self(owner),
        options(load_options),
        index(thread_index),
        frame(load_options),
        keys(load_options.distribution, load_options.keys,
             derive_seed(load_options.seed, thread_index)) {
    if (options.requests) budget = share_of(*options.requests, options.threads, index);
  }

  Generator& self;
  const LoadOptions& options;
  const std::uint32_t index;
  FrameTemplate frame;
  KeySource keys;
  std::vector<Connection> connections;  // outlives the ring, which may still send from it
  Ring ring;
  Phase phase = Phase::warm_up;
  std::uint64_t budget = ~std::uint64_t{0};  // requests that may still be sent in the measured part
  std::uint32_t busy = 0;                    // connections with requests in flight
  std::string failure;

  void fail(std::string text) {
    if (failure.empty()) failure = std::move(text);
  }

  [[nodiscard]] tl::expected<void, std::string> open() {
    const auto count =
        static_cast<std::uint32_t>(share_of(options.connections, options.threads, index));
    if (auto pinned =
            pin_thread(options.pin_cpu < 0 ? -1 : options.pin_cpu + static_cast<int>(index));
        !pinned) {
      return pinned;
    }
    if (auto opened = ring.open(kEntries, receive_buffers(count, options.pipeline)); !opened) {
      return opened;
    }
    // Registered files: a thread of a process with threads pays two atomics a system call for
    // others.
    if (const int error = -io_uring_register_files_sparse(ring.get(), count); error > 0) {
      return tl::unexpected(fmt::format("registering {} files: {}", count, std::strerror(error)));
    }
    connections.reserve(count);
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      Connection& connection = connections.emplace_back();
      auto socket = connect_to(options.server, options.congestion);
      if (!socket) return tl::unexpected(socket.error());
      connection.socket = std::move(*socket);
      if (auto greeted = say_hello(connection.socket); !greeted) {
        return tl::unexpected(fmt::format("{}: {}", options.server.text, greeted.error()));
      }
      const int fd = connection.socket.fd();
      if (const int result = io_uring_register_files_update(ring.get(), slot, &fd, 1); result < 0) {
        return tl::unexpected(fmt::format("registering a file: {}", std::strerror(-result)));
      }
      connection.batch.resize(options.pipeline * frame.size_bytes());
      for (std::uint32_t i = 0; i < options.pipeline; ++i) {
        std::memcpy(connection.batch.data() + i * frame.size_bytes(), frame.bytes().data(),
                    frame.size_bytes());
      }
    }
    return {};
  }

  // The next batch of a connection, unless the run is over or its requests are spent.
  void start_batch(std::uint32_t slot, std::uint64_t now) noexcept {
    if (phase == Phase::drain) return;
    const bool is_counted = phase == Phase::measure;
    const auto size = static_cast<std::uint32_t>(
        is_counted ? std::min<std::uint64_t>(options.pipeline, budget) : options.pipeline);
    if (size == 0) return;
    if (is_counted) budget -= size;

    Connection& connection = connections[slot];
    std::byte* at = connection.batch.data();
    for (std::uint32_t i = 0; i < size; ++i) {
      frame.fill(at, connection.next_tag, keys.next());
      connection.next_tag = next_tag(connection.next_tag);
      at += frame.size_bytes();
    }
    io_uring_sqe* entry = ring.next_entry();
    io_uring_prep_send(entry, static_cast<int>(slot), connection.batch.data(),
                       size * frame.size_bytes(), MSG_WAITALL | MSG_NOSIGNAL);
    // Only a failed send completes: a good one is proved by its replies, before which the batch is
    // not written again.
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    entry->user_data = Completion{Completion::Kind::send, slot}.encode();
    connection.in_flight = size;
    connection.sent_ns = now;
    self.result_.sent += size;
    ++busy;
  }

  void finish_batch(std::uint32_t slot) noexcept {
    const std::uint64_t now = now_ns();
    --busy;
    if (phase == Phase::measure) self.latencies_.record(now - connections[slot].sent_ns);
    start_batch(slot, now);
  }

  void on_receive(const io_uring_cqe& completion, std::uint32_t slot) {
    Connection& connection = connections[slot];
    if (completion.res > 0) {
      auto& counts = phase == Phase::measure ? self.result_.measured : self.result_.unmeasured;
      const auto replies =
          connection.checker.check(ring.received(completion), connection.in_flight, counts);
      ring.give_back(completion);
      if (replies < 0) {
        return fail(fmt::format("connection {}: {}", slot, connection.checker.fault()));
      }
      connection.in_flight -= static_cast<std::uint32_t>(replies);
      if (replies > 0 && connection.in_flight == 0) finish_batch(slot);
    } else if (completion.res == 0) {
      return fail(fmt::format("connection {}: the server closed it with {} requests unanswered",
                              slot, connection.in_flight));
    } else if (completion.res != -ENOBUFS) {
      return fail(fmt::format("connection {}: {}", slot, std::strerror(-completion.res)));
    }
    if ((completion.flags & IORING_CQE_F_MORE) == 0) {
      ring.arm_receive(static_cast<int>(slot), true, slot);
    }
  }

  void on_send(const io_uring_cqe& completion, std::uint32_t slot) {
    fail(completion.res < 0
             ? fmt::format("connection {}: send: {}", slot, std::strerror(-completion.res))
             : fmt::format("connection {}: only {} bytes of a batch were sent", slot,
                           completion.res));
  }

  [[nodiscard]] bool reap() {
    const int submitted = io_uring_submit_and_wait(ring.get(), 1);
    if (submitted < 0 && submitted != -EINTR) {
      fail(fmt::format("io_uring: {}", std::strerror(-submitted)));
      return false;
    }
    io_uring_cqe* completion = nullptr;
    unsigned head = 0;
    unsigned count = 0;
    io_uring_for_each_cqe(ring.get(), head, completion) {
      const Completion what = Completion::decode(completion->user_data);
      if (what.kind == Completion::Kind::send) {
        on_send(*completion, what.slot);
      } else {
        on_receive(*completion, what.slot);
      }
      ++count;
    }
    io_uring_cq_advance(ring.get(), count);
    self.result_.completions += count;
    ++self.result_.turns;
    publish_progress();
    return failure.empty();
  }

  void publish_progress() noexcept {
    const StatusCounts& measured = self.result_.measured;
    const StatusCounts& rest = self.result_.unmeasured;
    self.progress_.answered.store(measured.answered() + rest.answered(), std::memory_order_relaxed);
    self.progress_.refused.store(measured.refused() + rest.refused(), std::memory_order_relaxed);
  }

  void enter_measure() noexcept {
    phase = Phase::measure;
    self.progress_.is_measuring.store(true, std::memory_order_relaxed);
  }

  [[nodiscard]] tl::expected<void, std::string> run(const RunControl& control) {
    std::uint64_t started_ns = now_ns();
    const std::uint64_t measure_at_ns = started_ns + options.warmup_ns;
    const std::uint64_t end_ns =
        options.requests ? ~std::uint64_t{0} : measure_at_ns + options.duration_ns;
    if (options.warmup_ns == 0) enter_measure();
    for (std::uint32_t slot = 0; slot < connections.size(); ++slot) {
      ring.arm_receive(static_cast<int>(slot), true, slot);
      start_batch(slot, now_ns());
    }
    while (busy != 0) {
      if (!reap()) return tl::unexpected(failure);
      const std::uint64_t now = now_ns();
      if (phase == Phase::warm_up && now >= measure_at_ns) {
        enter_measure();
        started_ns = now;
      }
      if (phase == Phase::measure) self.result_.measured_ns = now - started_ns;
      if (now >= end_ns || control.stop.load(std::memory_order_relaxed)) phase = Phase::drain;
    }
    return {};
  }
};

Generator::Generator(const LoadOptions& options, std::uint32_t index)
    : impl_(std::make_unique<Impl>(*this, options, index)) {}
Generator::~Generator() = default;

void Generator::abort() noexcept {
  for (const Connection& connection : impl_->connections) {
    shutdown(connection.socket.fd(), SHUT_RDWR);
  }
}

tl::expected<void, std::string> Generator::open() {
  return impl_->open();
}
tl::expected<void, std::string> Generator::run(const RunControl& control) {
  return impl_->run(control);
}

}  // namespace pail::bench
