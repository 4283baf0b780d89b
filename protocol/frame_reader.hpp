// Cuts a byte stream into frames; no I/O in it. One per direction of a connection, used by one
// thread.
//
//   reader.feed(chunk);                       // what was just received; stays in place until
//   end_chunk while (auto frame = reader.next()) ...    // borrows from the chunk, or from the
//   carry buffer where
//                                             // the frame began in an earlier chunk
//   if (auto error = reader.error()) ...      // the stream is not ours: answer with it and close
//   reader.end_chunk();                       // frames end here; the chunk may be recycled
//
// Between chunks the reader holds either nothing or the beginning of exactly one frame, less than
// that frame's size, in the carry buffer that its owner lends: so a peer costs at most that buffer.
// A frame that lies whole within its chunk is never copied. All frames of one chunk are valid at
// the same time, until end_chunk, so that they can be decided in groups.
//
// A server's reader starts in `Phase::hello`: at most kMaxHelloBytes, refused as soon as the
// beginning shows that it is no HELLO, and no second frame until accept_hello() says that the first
// was good.
#pragma once

#include <cassert>
#include <optional>

#include "protocol/codec.hpp"

namespace pail::protocol {

class FrameReader {
 public:
  enum class Phase : std::uint8_t { hello, open };

  FrameReader() = default;  // Reads nothing: assign a real one before use.

  // `carry` is borrowed for the reader's life and bounds the size of a frame; kMaxFrameBytes is the
  // most that is useful.
  FrameReader(Buffer carry, Phase phase) noexcept;

  void feed(Bytes chunk) noexcept {
    assert(rest_.empty());
    rest_ = chunk;
  }

  // The next whole frame, or nothing: the chunk is used up but for the beginning of a frame, or
  // error().
  [[nodiscard]] std::optional<Bytes> next() noexcept {
    if (held_ == 0 && rest_.size() >= kFramePrefixBytes) [[likely]] {
      const std::size_t size = wire::load<std::uint16_t>(rest_.data());
      // The limit of the quick path is 0 unless the phase is open and there was no error.
      if (size <= quick_limit_ && size <= rest_.size() && size >= kFramePrefixBytes) [[likely]] {
        const Bytes frame = rest_.first(size);
        rest_ = rest_.subspan(size);
        return frame;
      }
    }
    return next_slowly();
  }

  // Keeps the beginning of an unfinished frame. Call it only after next() has returned nothing.
  void end_chunk() noexcept;

  // The HELLO that next() returned was good: whole frames from here on.
  void accept_hello() noexcept;

  // Always fatal. In the phase of HELLO its reply is a HELLO reply, later a GOAWAY.
  [[nodiscard]] std::optional<DecodeError> error() const noexcept;

  // Bytes fed and not yet returned; those of the frame under way included.
  [[nodiscard]] std::size_t pending_bytes() const noexcept { return held_ + rest_.size(); }

 private:
  enum class State : std::uint8_t { hello, hello_returned, open, failed };

  [[nodiscard]] std::optional<Bytes> next_slowly() noexcept;
  [[nodiscard]] std::optional<Bytes> returned(Bytes frame) noexcept;
  [[nodiscard]] std::size_t limit() const noexcept;
  [[nodiscard]] bool is_plausible(Bytes beginning) noexcept;
  void top_up(std::size_t wanted) noexcept;
  bool fail(std::string_view reason) noexcept;  // returns false

  Bytes rest_;            // of the chunk, not yet returned
  std::size_t held_ = 0;  // bytes at the start of carry_, of a frame that began in an earlier chunk
  std::size_t quick_limit_ = 0;  // largest frame that the quick path of next() may return
  Buffer carry_;
  State state_ = State::failed;
  bool failed_before_hello_ = false;
  std::string_view reason_;
};

}  // namespace pail::protocol
