// Can io_uring be used here? Containers, sysctls and old kernels say no in different places, so the
// probe does once, on a small ring, everything that the backend will do: set up, register chunks,
// receive a stream through them. What it finds wrong is the text that the operator reads.
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "server/io/error.hpp"
#include "server/io/uring_backend.hpp"

namespace pail::io {
namespace {

struct SocketPair {
  int ends[2] = {-1, -1};
  SocketPair() noexcept {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) ends[0] = -1;
  }
  ~SocketPair() {
    if (ends[0] < 0) return;
    ::close(ends[0]);
    ::close(ends[1]);
  }
};

std::string explained(const IoError& error) {
  switch (error.code) {
    case EPERM:
    case EACCES:
      return error.text +
             " (forbidden by a container's seccomp filter or kernel.io_uring_disabled)";
    case ENOSYS:
      return error.text + " (this kernel has no io_uring)";
    case ENOMEM:
      return error.text + " (the limit on locked memory is too low: ulimit -l)";
    case EINVAL:
      return error.text + " (Linux 6.1 or later is needed)";
    default:
      return error.text;
  }
}

// The backend takes it for our own fault if the kernel refuses to enter its ring, so that is tried
// before there is one.
tl::expected<void, IoError> try_to_enter() noexcept {
  auto ring = Ring::make(4, 8);
  if (!ring) return tl::unexpected(ring.error());
  io_uring_prep_nop(io_uring_get_sqe((*ring)->get()));
  const int result = io_uring_submit_and_wait((*ring)->get(), 1);
  if (result < 0) return tl::unexpected(error_of("io_uring_enter", -result));
  return {};
}

tl::expected<void, IoError> try_everything() noexcept {
  if (auto entered = try_to_enter(); !entered) return entered;
  const Sizes tiny{.submissions = 4, .completions = 8, .chunks = 2, .chunk_bytes = 64};
  auto backend = make_backend(Kind::uring, tiny);
  if (!backend) return tl::unexpected(backend.error());

  const SocketPair pair;
  if (pair.ends[0] < 0) return tl::unexpected(error_of("socketpair", errno));
  const Key key{Operation::receive, 0, 0};
  (*backend)->receive(key, pair.ends[0], Receive::stream);
  const std::byte one{};
  const Sending sending =
      (*backend)->send(Key{Operation::send, 0, 0}, pair.ends[1], Bytes(&one, 1));
  static_cast<void>(sending);
  bool received = false;
  bool sent = false;
  constexpr int kPatienceMs = 1000;
  while (!received || !sent) {
    const auto events = (*backend)->reap(kPatienceMs);
    if (events.empty()) return tl::unexpected(error_of("io_uring completes nothing", ETIME));
    for (const Event& event : events) {
      (*backend)->recycle(event);
      if (event.result < 0) return tl::unexpected(error_of("io_uring receive", -event.result));
      if (event.key.operation == Operation::receive) received = true;
      if (event.key.operation == Operation::send) sent = true;
      if (event.key.operation == Operation::receive && !event.armed) {
        return tl::unexpected(error_of("io_uring multishot receive", EINVAL));
      }
    }
  }
  return {};
}

}  // namespace

tl::expected<void, IoError> probe_uring() noexcept {
  auto result = try_everything();
  if (!result) result.error().text = explained(result.error());
  return result;
}

}  // namespace pail::io
