#include "server/io/uring_backend.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "server/io/error.hpp"

namespace pail::io {
namespace {

// Events of one reap: more wait in the completion queue for the next.
constexpr std::size_t kMaxEvents = 1024;

// The kernel refused what it had accepted at the start, or we handed it rubbish: either way we are
// wrong.
[[noreturn]] void die(const char* what, int code) noexcept {
  std::fprintf(stderr, "paild: %s: %s\n", what, std::strerror(code));
  std::abort();
}

}  // namespace

tl::expected<std::unique_ptr<Ring>, IoError> Ring::make(std::uint32_t submissions,
                                                        std::uint32_t completions) {
  io_uring_params params{};
  params.flags = IORING_SETUP_SUBMIT_ALL        // one bad submission does not stop the others
                 | IORING_SETUP_CLAMP           // less than asked for, rather than nothing
                 | IORING_SETUP_CQSIZE          // several completions a submission: multishot
                 | IORING_SETUP_COOP_TASKRUN    // never interrupt the thread for a completion
                 | IORING_SETUP_SINGLE_ISSUER   // one thread only: no locking in the kernel
                 | IORING_SETUP_DEFER_TASKRUN;  // completions are made when we ask for them
  params.cq_entries = completions;
  std::unique_ptr<Ring> ring(new Ring);
  if (const int result = io_uring_queue_init_params(submissions, ring->get(), &params);
      result < 0) {
    return tl::unexpected(error_of("io_uring_setup", -result));
  }
  ring->is_made_ = true;
  if ((params.features & IORING_FEAT_NODROP) == 0 || (params.features & IORING_FEAT_EXT_ARG) == 0) {
    return tl::unexpected(error_of("io_uring is too old here", ENOSYS));
  }
  // Saves a descriptor look-up a system call; a kernel without it works too.
  static_cast<void>(io_uring_register_ring_fd(ring->get()));
  return ring;
}

UringBackend::UringBackend(std::unique_ptr<Ring> ring, ChunkRing chunks, int wake_descriptor)
    : owned_ring_(std::move(ring)),
      chunks_(std::move(chunks)),
      ring_(owned_ring_->get()),
      wake_descriptor_(wake_descriptor) {
  events_.reserve(kMaxEvents);
  arm_wake();
}

UringBackend::~UringBackend() {
  owned_ring_.reset();  // Cancels what is in flight before the chunks go.
  ::close(wake_descriptor_);
}

std::span<const Event> UringBackend::reap(int timeout_ms) noexcept {
  chunks_.publish();
  submit_and_wait(timeout_ms);
  if ((IO_URING_READ_ONCE(*ring_->sq.kflags) & IORING_SQ_CQ_OVERFLOW) != 0) ++counts_.overflows;

  // Record first, handle after: the completion queue is free again before anything is done.
  events_.clear();
  unsigned head = 0;
  unsigned seen = 0;
  io_uring_cqe* completion = nullptr;
  io_uring_for_each_cqe(ring_, head, completion) {
    if (events_.size() == kMaxEvents) break;
    ++seen;
    Event event;
    if (translate(*completion, event)) events_.push_back(event);
  }
  io_uring_cq_advance(ring_, seen);
  return events_;
}

void UringBackend::submit_and_wait(int timeout_ms) noexcept {
  int result = 0;
  if (timeout_ms == 0 || io_uring_cq_ready(ring_) > 0) {
    result = io_uring_submit_and_get_events(ring_);
  } else if (timeout_ms < 0) {
    ++counts_.sleeps;
    result = io_uring_submit_and_wait(ring_, 1);
  } else {
    ++counts_.sleeps;
    __kernel_timespec timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000LL};
    io_uring_cqe* ignored = nullptr;
    result = io_uring_submit_and_wait_timeout(ring_, &ignored, 1, &timeout, nullptr);
  }
  // EBUSY and EAGAIN: completions must be reaped first, which comes next.
  if (result < 0 && result != -ETIME && result != -EINTR && result != -EBUSY && result != -EAGAIN) {
    die("io_uring_enter", -result);
  }
}

bool UringBackend::translate(const io_uring_cqe& completion, Event& event) noexcept {
  event.key = Key::unpack(completion.user_data);
  event.result = completion.res;
  event.armed = (completion.flags & IORING_CQE_F_MORE) != 0;
  switch (event.key.operation) {
    case Operation::none:
      return false;  // of a cancellation
    case Operation::accept:
    case Operation::send:
      return true;
    case Operation::receive:
      if ((completion.flags & IORING_CQE_F_BUFFER) != 0) {
        event.chunk = completion.flags >> IORING_CQE_BUFFER_SHIFT;
        if (event.result > 0) {
          event.data = {chunks_.data(event.chunk), static_cast<std::size_t>(event.result)};
        }
      }
      if (event.result == -ENOBUFS) ++counts_.out_of_chunks;
      return true;
    case Operation::wake: {
      std::uint64_t count = 0;
      static_cast<void>(::read(wake_descriptor_, &count, sizeof count));
      arm_wake();
      return true;
    }
  }
  return false;
}

io_uring_sqe* UringBackend::next_submission() noexcept {
  io_uring_sqe* submission = io_uring_get_sqe(ring_);
  if (submission == nullptr) [[unlikely]] {
    // Everything asked so far goes to the kernel early. Chunks recycled so far go with it, because
    // a receive must not be submitted ahead of the chunk that it may need.
    chunks_.publish();
    const int result = io_uring_submit(ring_);
    if (result < 0 && result != -EINTR && result != -EBUSY && result != -EAGAIN) {
      die("io_uring_submit", -result);
    }
    submission = io_uring_get_sqe(ring_);
    if (submission == nullptr) die("io_uring_submit", EBUSY);
  }
  return submission;
}

// The prep helpers clear the user data, so it is set after them.

void UringBackend::accept(Key key, int listener) noexcept {
  io_uring_sqe* const submission = next_submission();
  // Without SOCK_NONBLOCK: io_uring would hand EAGAIN to us instead of waiting.
  io_uring_prep_multishot_accept(submission, listener, nullptr, nullptr, SOCK_CLOEXEC);
  io_uring_sqe_set_data64(submission, key.packed());
}

void UringBackend::receive(Key key, int socket, Receive mode) noexcept {
  io_uring_sqe* const submission = next_submission();
  if (mode == Receive::stream) {
    io_uring_prep_recv_multishot(submission, socket, nullptr, 0, 0);
  } else {
    io_uring_prep_recv(submission, socket, nullptr, 0, 0);
  }
  submission->flags |= IOSQE_BUFFER_SELECT;
  submission->buf_group = ChunkRing::kGroup;
  io_uring_sqe_set_data64(submission, key.packed());
}

void UringBackend::stop(Key key, int /*descriptor*/) noexcept {
  io_uring_sqe* const submission = next_submission();
  io_uring_prep_cancel64(submission, key.packed(), 0);
  io_uring_sqe_set_data64(submission, Key{}.packed());
}

Sending UringBackend::send(Key key, int socket, Bytes bytes) noexcept {
  assert(!bytes.empty());
  io_uring_sqe* const submission = next_submission();
  // WAITALL: a full socket buffer makes the kernel wait and go on, so that a send is one
  // completion.
  io_uring_prep_send(submission, socket, bytes.data(), bytes.size(), MSG_WAITALL | MSG_NOSIGNAL);
  io_uring_sqe_set_data64(submission, key.packed());
  return Sending::in_flight;
}

void UringBackend::recycle(const Event& event) noexcept {
  if (event.chunk != kNoChunk) chunks_.recycle(event.chunk);
}

void UringBackend::close(int socket) noexcept {
  ::close(socket);
}

void UringBackend::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is about to wake anyway.
  static_cast<void>(::write(wake_descriptor_, &one, sizeof one));
}

void UringBackend::arm_wake() noexcept {
  io_uring_sqe* const submission = next_submission();
  io_uring_prep_poll_add(submission, wake_descriptor_, POLLIN);
  io_uring_sqe_set_data64(submission, Key{Operation::wake, 0, 0}.packed());
}

tl::expected<std::unique_ptr<Backend>, IoError> make_uring(const Sizes& sizes) {
  auto ring = Ring::make(sizes.submissions, sizes.completions);
  if (!ring) return tl::unexpected(ring.error());
  auto chunks = ChunkRing::make(*(*ring)->get(), sizes.chunks, sizes.chunk_bytes);
  if (!chunks) return tl::unexpected(chunks.error());
  const int wake_descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_descriptor < 0) return tl::unexpected(error_of("eventfd", errno));
  return std::make_unique<UringBackend>(std::move(*ring), std::move(*chunks), wake_descriptor);
}

}  // namespace pail::io
