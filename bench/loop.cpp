#include "bench/loop.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "bench/text_replies.hpp"

namespace pail::bench {
namespace {

constexpr unsigned kEntries = 4096;

// Enough that all connections can have a burst lie in them at once, few enough to stay in the
// cache.
unsigned receive_buffers(std::uint32_t connections, std::uint32_t pipeline) {
  const std::size_t burst_bytes = std::size_t{pipeline} * protocol::kReplyHeaderBytes;
  const std::size_t a_connection = burst_bytes / Ring::kBufferBytes + 1;
  const std::size_t wanted = std::clamp<std::size_t>(connections * a_connection, 64, 4096);
  return static_cast<unsigned>(std::bit_ceil(wanted));
}

}  // namespace

std::uint64_t now_ns() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Loop::Loop(const LoadOptions& options, std::uint32_t index, Meters& meters)
    : options_(options),
      index_(index),
      meters_(meters),
      frame_(options),
      keys_(options.distribution, options.keys, derive_seed(options.seed, index)),
      needs_outcomes_(options.is_audited) {}

tl::expected<void, std::string> Loop::open() {
  const auto count =
      static_cast<std::uint32_t>(share_of(options_.connections, options_.threads, index_));
  if (auto pinned =
          pin_thread(options_.pin_cpu < 0 ? -1 : options_.pin_cpu + static_cast<int>(index_));
      !pinned) {
    return pinned;
  }
  if (auto opened = ring_.open(kEntries, receive_buffers(count, options_.pipeline)); !opened) {
    return opened;
  }
  // Registered files: a thread of a process with threads pays two atomics a system call for others.
  if (const int error = -io_uring_register_files_sparse(ring_.get(), count); error > 0) {
    return tl::unexpected(fmt::format("registering {} files: {}", count, std::strerror(error)));
  }
  wires_.resize(count);
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    if (auto opened = open_connection(slot); !opened) return opened;
  }
  prepare(count);
  return {};
}

tl::expected<void, std::string> Loop::open_connection(std::uint32_t slot) {
  Wire& wire = wires_[slot];
  auto socket = connect_to(options_.server, options_.congestion);
  if (!socket) return tl::unexpected(socket.error());
  wire.socket = std::move(*socket);
  if (options_.target.is_native()) {
    if (auto greeted = say_hello(wire.socket, options_.token); !greeted) {
      return tl::unexpected(fmt::format("{}: {}", options_.server.text, greeted.error()));
    }
    wire.replies = std::make_unique<ReplyChecker>(
        1, options_.mix, static_cast<std::uint32_t>(options_.layers.size() + 1));
  } else {
    wire.replies = std::make_unique<TextReplies>(options_);
  }
  const int fd = wire.socket.fd();
  if (const int result = io_uring_register_files_update(ring_.get(), slot, &fd, 1); result < 0) {
    return tl::unexpected(fmt::format("registering a file: {}", std::strerror(-result)));
  }
  return {};
}

void Loop::abort() noexcept {
  for (const Wire& wire : wires_) shutdown(wire.socket.fd(), SHUT_RDWR);
}

void Loop::fail(std::string text) {
  if (failure_.empty()) failure_ = std::move(text);
}

void Loop::fail_send(std::uint32_t slot, std::int32_t result) {
  fail(result < 0 ? fmt::format("connection {}: send: {}", slot, std::strerror(-result))
                  : fmt::format("connection {}: only {} bytes of a batch were sent", slot, result));
}

bool Loop::failed_to_submit(int result) {
  // ETIME: the wait had a limit, and it has passed.
  if (result >= 0 || result == -EINTR || result == -ETIME) return false;
  fail(fmt::format("io_uring: {}", std::strerror(-result)));
  return true;
}

bool Loop::reap() {
  io_uring_cqe* completion = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(ring_.get(), head, completion) {
    const Completion what = Completion::decode(completion->user_data);
    if (what.kind == Completion::Kind::send) {
      on_send(what.slot, completion->res);
    } else {
      on_receive(*completion, what.slot);
    }
    ++count;
  }
  io_uring_cq_advance(ring_.get(), count);
  meters_.result.completions += count;
  ++meters_.result.turns;
  publish_progress();
  return failure_.empty();
}

void Loop::on_receive(const io_uring_cqe& completion, std::uint32_t slot) {
  Wire& wire = wires_[slot];
  if (completion.res > 0) {
    outcomes_.clear();
    const auto replies = wire.replies->check(ring_.received(completion), wire.in_flight, counts(),
                                             needs_outcomes_ ? &outcomes_ : nullptr);
    ring_.give_back(completion);
    if (replies < 0) {
      return fail(fmt::format("connection {}: {}", slot, wire.replies->fault()));
    }
    wire.in_flight -= static_cast<std::uint32_t>(replies);
    if (replies > 0) on_replies(slot, static_cast<std::uint32_t>(replies));
  } else if (completion.res == 0) {
    return fail(fmt::format("connection {}: the server closed it with {} requests unanswered", slot,
                            wire.in_flight));
  } else if (completion.res != -ENOBUFS) {
    return fail(fmt::format("connection {}: {}", slot, std::strerror(-completion.res)));
  }
  if ((completion.flags & IORING_CQE_F_MORE) == 0) {
    ring_.arm_receive(static_cast<int>(slot), true, slot);
  }
}

void Loop::publish_progress() noexcept {
  const StatusCounts& measured = meters_.result.measured;
  const StatusCounts& rest = meters_.result.unmeasured;
  Progress& progress = meters_.progress;
  progress.sent.store(meters_.result.sent, std::memory_order_relaxed);
  progress.answered.store(measured.answered() + rest.answered(), std::memory_order_relaxed);
  progress.refused.store(measured.refused() + rest.refused(), std::memory_order_relaxed);
  progress.errors.store(measured.errors() + rest.errors(), std::memory_order_relaxed);
}

void Loop::enter_measure() noexcept {
  phase_ = Phase::measure;
  meters_.progress.is_measuring.store(true, std::memory_order_relaxed);
}

void Loop::note_time(std::uint64_t now) noexcept {
  if (phase_ == Phase::warm_up && now >= measure_at_ns_) {
    enter_measure();
    measuring_since_ns_ = now;
  }
  if (phase_ == Phase::measure) meters_.result.measured_ns = now - measuring_since_ns_;
}

void Loop::remember_grant(std::uint32_t key, std::uint32_t tokens, std::uint64_t sent_ns,
                          std::uint64_t received_ns) {
  if (tokens == 0) return;
  if (meters_.grants.size() >= kMaxGrants / options_.threads) {
    meters_.has_lost_grants = true;
    return;
  }
  meters_.grants.push_back({sent_ns, received_ns, key, tokens});
}

}  // namespace pail::bench
