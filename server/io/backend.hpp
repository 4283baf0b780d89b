// How a shard moves bytes: one small interface, with io_uring behind it, or epoll where that is
// forbidden.
//
// A backend belongs to one thread, which makes it, calls it and destroys it; only wake() may be
// called from others. Nothing is ever called back: the thread reaps events and handles them one
// after another.
//
//   for (const Event& event : backend.reap(timeout_ms)) ...   // also hands over all that was asked
//   since
//
// Rules of the game, the same for every backend:
//   - At most one receive and one send are in flight for a socket. The sent bytes stay where they
//   are
//     until the event of the send.
//   - A receive ends with an event whose `armed` is false, whatever the reason; only then may the
//   next
//     one be started. So a socket is closed when neither a receive nor a send is in flight.
//   - A received chunk stays valid until it is recycled, which must happen before the next reap().
//   - ENOBUFS as the result of a receive is no fault: chunks were handed out faster than recycled.
//     Start the receive again once they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "server/io/key.hpp"

namespace pail::io {

using Bytes = std::span<const std::byte>;

inline constexpr std::uint32_t kNoChunk = ~std::uint32_t{0};

struct Event {
  Key key;
  // accept: the new descriptor. receive, send: bytes; 0 from a receive is the end of the stream.
  // Negative: the negated errno.
  int result = 0;
  bool armed = false;              // accept, receive: more events of this key will follow
  std::uint32_t chunk = kNoChunk;  // what to recycle
  Bytes data = {};                 // received bytes
};

enum class Receive : std::uint8_t {
  once,    // one chunk, then the receive has ended
  stream,  // chunks until stop() or an error: cheaper where chunks are small
};

enum class Sending : std::uint8_t {
  in_flight,  // an event will follow
  done,       // all bytes are out, no event follows
};

// Sizes of the things made at the start; server/limits.hpp has the ones in use.
struct Sizes {
  std::uint32_t submissions = 1024;
  std::uint32_t completions = 8192;
  std::uint32_t chunks = 256;  // a power of two
  std::uint32_t chunk_bytes = 16 * 1024;
};

// The three counts are written by the backend's thread, and read by it.
struct Counts {
  std::uint64_t sleeps = 0;     // system calls that were allowed to wait
  std::uint64_t overflows = 0;  // times that the completion queue was too short
  std::uint64_t out_of_chunks = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Waits until there is an event, at most `timeout_ms` (negative: for ever, 0: not at all). The
  // events are valid until the next call.
  [[nodiscard]] virtual std::span<const Event> reap(int timeout_ms) noexcept = 0;

  // Accepts until stop() or an error.
  virtual void accept(Key key, int listener) noexcept = 0;
  virtual void receive(Key key, int socket, Receive mode) noexcept = 0;
  // Ends an accept or a receive: one more event will say so, unless such an event is on its way
  // already.
  virtual void stop(Key key, int descriptor) noexcept = 0;
  [[nodiscard]] virtual Sending send(Key key, int socket, Bytes bytes) noexcept = 0;
  virtual void recycle(const Event& event) noexcept = 0;
  // Nothing may be in flight.
  virtual void close(int socket) noexcept = 0;

  // From any thread: makes reap() return an event with Operation::wake. Several wakes may become
  // one.
  virtual void wake() noexcept = 0;

  [[nodiscard]] virtual const Counts& counts() const noexcept = 0;
};

enum class Kind : std::uint8_t { uring, epoll };
[[nodiscard]] constexpr const char* name(Kind kind) noexcept {
  return kind == Kind::uring ? "uring" : "epoll";
}

// Why something of the system could not be had, in words for the operator.
struct IoError {
  int code = 0;  // errno
  std::string text;
};

// Whether io_uring can be used here, found out by doing once all that the backend will do.
[[nodiscard]] tl::expected<void, IoError> probe_uring() noexcept;

// To be called on the thread that will use the backend.
[[nodiscard]] tl::expected<std::unique_ptr<Backend>, IoError> make_backend(Kind kind,
                                                                           const Sizes& sizes);

}  // namespace pail::io
