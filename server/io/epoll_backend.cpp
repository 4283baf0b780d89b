#include "server/io/epoll_backend.hpp"

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

constexpr std::size_t kMaxEvents = 1024;  // of one reap
constexpr std::size_t kMaxReady = 512;
constexpr int kMaxAccepts = 64;  // of one listener and reap

[[noreturn]] void die(const char* what, int code) noexcept {
  std::fprintf(stderr, "paild: %s: %s\n", what, std::strerror(code));
  std::abort();
}

bool would_block(int code) noexcept {
  return code == EAGAIN || code == EWOULDBLOCK;
}

}  // namespace

EpollBackend::EpollBackend(int epoll, int wake_descriptor, Mapping chunks, const Sizes& sizes)
    : epoll_(epoll),
      wake_descriptor_(wake_descriptor),
      chunks_(std::move(chunks)),
      chunk_count_(sizes.chunks),
      chunk_bytes_(sizes.chunk_bytes),
      ready_(kMaxReady) {
  events_.reserve(kMaxEvents + kMaxAccepts);
  noted_.reserve(kMaxEvents);
  if (!want(watch(wake_descriptor_), wake_descriptor_, EPOLLIN)) die("epoll_ctl", errno);
}

EpollBackend::~EpollBackend() {
  ::close(epoll_);
  ::close(wake_descriptor_);
}

std::span<const Event> EpollBackend::reap(int timeout_ms) noexcept {
  chunks_used_ = 0;
  events_.clear();
  events_.swap(noted_);
  if (!events_.empty()) timeout_ms = 0;
  if (timeout_ms != 0) ++counts_.sleeps;
  const int count =
      ::epoll_wait(epoll_, ready_.data(), static_cast<int>(ready_.size()), timeout_ms);
  if (count < 0 && errno != EINTR) die("epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    if (is_full()) break;  // what is left is reported again
    handle(ready_[static_cast<std::size_t>(i)]);
  }
  return events_;
}

bool EpollBackend::is_full() const noexcept {
  return events_.size() + 2 > kMaxEvents;
}

void EpollBackend::handle(const epoll_event& ready) noexcept {
  const int descriptor = ready.data.fd;
  if (descriptor == wake_descriptor_) return drain_wake();
  Watch& state = watch(descriptor);
  const bool is_broken = (ready.events & (EPOLLERR | EPOLLHUP)) != 0;
  const bool is_readable = is_broken || (ready.events & EPOLLIN) != 0;
  const bool is_writable = is_broken || (ready.events & EPOLLOUT) != 0;

  if (is_writable && state.is_sending && send_some(state, descriptor)) {
    events_.push_back({.key = state.output, .result = state.result});
  } else if (!state.is_sending && (ready.events & EPOLLOUT) != 0) {
    static_cast<void>(want(state, descriptor, state.events & ~std::uint32_t{EPOLLOUT}));
  }
  if (!is_readable) return;
  if (state.is_accepting) return accept_some(state, descriptor);
  if (state.is_receiving) return receive_one(state, descriptor);
  // Nobody wants what there is to read. A broken socket would be reported for ever, so it is
  // forgotten until somebody asks for it again.
  if (is_broken) return forget(state, descriptor);
  static_cast<void>(want(state, descriptor, state.events & ~std::uint32_t{EPOLLIN}));
}

void EpollBackend::accept_some(Watch& state, int listener) noexcept {
  for (int i = 0; i < kMaxAccepts; ++i) {
    const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0 && (would_block(errno) || errno == EINTR)) return;
    state.is_accepting = socket >= 0;
    events_.push_back(
        {.key = state.input, .result = socket >= 0 ? socket : -errno, .armed = state.is_accepting});
    if (!state.is_accepting) return;
  }
}

void EpollBackend::receive_one(Watch& state, int socket) noexcept {
  if (chunks_used_ == chunk_count_) {
    ++counts_.out_of_chunks;  // reported again by the next reap
    return;
  }
  std::byte* const chunk = chunks_.data() + std::size_t{chunks_used_} * chunk_bytes_;
  const ssize_t size = ::recv(socket, chunk, chunk_bytes_, MSG_DONTWAIT);
  if (size < 0 && (would_block(errno) || errno == EINTR)) return;
  Event event{.key = state.input, .result = size >= 0 ? static_cast<int>(size) : -errno};
  if (size > 0) {
    event.chunk = chunks_used_++;
    event.data = {chunk, static_cast<std::size_t>(size)};
  }
  state.is_receiving = size > 0 && state.mode == Receive::stream;
  event.armed = state.is_receiving;
  events_.push_back(event);
}

// Whether the send has ended, well or badly: state.result says which.
bool EpollBackend::send_some(Watch& state, int socket) noexcept {
  const ssize_t size =
      ::send(socket, state.rest.data(), state.rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (size < 0) {
    if (would_block(errno) || errno == EINTR) return false;
    state.is_sending = false;
    state.result = -errno;
    return true;
  }
  state.result += static_cast<int>(size);
  state.rest = state.rest.subspan(static_cast<std::size_t>(size));
  state.is_sending = !state.rest.empty();
  return !state.is_sending;
}

void EpollBackend::accept(Key key, int listener) noexcept {
  Watch& state = watch(listener);
  state.is_accepting = true;
  state.input = key;
  if (!want(state, listener, EPOLLIN)) end_input(state, errno);
}

void EpollBackend::receive(Key key, int socket, Receive mode) noexcept {
  Watch& state = watch(socket);
  assert(!state.is_receiving);
  state.is_receiving = true;
  state.mode = mode;
  state.input = key;
  if (!want(state, socket, state.events | EPOLLIN)) end_input(state, errno);
}

void EpollBackend::stop(Key key, int descriptor) noexcept {
  Watch& state = watch(descriptor);
  if ((state.is_receiving || state.is_accepting) && state.input == key) end_input(state, ECANCELED);
}

// The receive or accept has ended; its last event says why.
void EpollBackend::end_input(Watch& state, int code) noexcept {
  state.is_receiving = false;
  state.is_accepting = false;
  noted_.push_back({.key = state.input, .result = -code});
}

Sending EpollBackend::send(Key key, int socket, Bytes bytes) noexcept {
  Watch& state = watch(socket);
  assert(!state.is_sending && !bytes.empty());
  state.is_sending = true;
  state.output = key;
  state.rest = bytes;
  state.result = 0;
  if (!send_some(state, socket)) {
    if (want(state, socket, state.events | EPOLLOUT)) return Sending::in_flight;
    state.is_sending = false;
    state.result = -errno;
  }
  if (state.result > 0) return Sending::done;
  noted_.push_back({.key = key, .result = state.result});
  return Sending::in_flight;
}

void EpollBackend::close(int socket) noexcept {
  Watch& state = watch(socket);
  assert(!state.is_receiving && !state.is_sending);
  state = Watch{};  // the kernel forgets a closed socket by itself
  ::close(socket);
}

void EpollBackend::wake() noexcept {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is about to wake anyway.
  static_cast<void>(::write(wake_descriptor_, &one, sizeof one));
}

void EpollBackend::drain_wake() noexcept {
  std::uint64_t count = 0;
  static_cast<void>(::read(wake_descriptor_, &count, sizeof count));
  events_.push_back({.key = {Operation::wake, 0, 0}});
}

EpollBackend::Watch& EpollBackend::watch(int descriptor) noexcept {
  const auto index = static_cast<std::size_t>(descriptor);
  if (index >= watches_.size()) watches_.resize(index + 64);
  return watches_[index];
}

// False, with errno, where the kernel has no room to watch another descriptor.
bool EpollBackend::want(Watch& state, int descriptor, std::uint32_t events) noexcept {
  if (state.is_registered && state.events == events) return true;
  epoll_event wanted{};
  wanted.events = events;
  wanted.data.fd = descriptor;
  const int operation = state.is_registered ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_, operation, descriptor, &wanted) != 0) return false;
  state.is_registered = true;
  state.events = events;
  return true;
}

void EpollBackend::forget(Watch& state, int descriptor) noexcept {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
  state.is_registered = false;
  state.events = 0;
}

tl::expected<std::unique_ptr<Backend>, IoError> make_epoll(const Sizes& sizes) {
  Mapping chunks(std::size_t{sizes.chunks} * sizes.chunk_bytes);
  if (!chunks.is_valid()) return tl::unexpected(error_of("memory for receive buffers", ENOMEM));
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return tl::unexpected(error_of("epoll_create1", errno));
  const int wake_descriptor = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_descriptor < 0) {
    ::close(epoll);
    return tl::unexpected(error_of("eventfd", errno));
  }
  return std::make_unique<EpollBackend>(epoll, wake_descriptor, std::move(chunks), sizes);
}

}  // namespace pail::io
