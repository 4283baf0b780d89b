#include "protocol/frame_reader.hpp"

#include <algorithm>

namespace pail::protocol {
namespace {

constexpr std::size_t kSizeFieldBytes = 2;
constexpr std::size_t kSizeAndOpBytes = 3;
static_assert(kSizeAndOpBytes <= kFramePrefixBytes);

}  // namespace

FrameReader::FrameReader(Buffer carry, Phase phase) noexcept
    : carry_(carry.first(std::min(carry.size(), kMaxFrameBytes))),
      state_(phase == Phase::hello ? State::hello : State::open) {
  assert(carry.size() >= kMaxHelloBytes);
  quick_limit_ = state_ == State::open ? limit() : 0;
}

void FrameReader::accept_hello() noexcept {
  assert(state_ == State::hello_returned);
  state_ = State::open;
  quick_limit_ = limit();
}

std::size_t FrameReader::limit() const noexcept {
  return state_ == State::open ? carry_.size() : std::min(carry_.size(), kMaxHelloBytes);
}

std::optional<Bytes> FrameReader::next_slowly() noexcept {
  if (state_ == State::failed || state_ == State::hello_returned) return std::nullopt;
  if (held_ == 0) {
    if (rest_.size() < kSizeFieldBytes || !is_plausible(rest_)) return std::nullopt;
    const std::size_t size = wire::load<std::uint16_t>(rest_.data());
    if (rest_.size() < std::max(size, kFramePrefixBytes)) return std::nullopt;
    const Bytes frame = rest_.first(size);
    rest_ = rest_.subspan(size);
    return returned(frame);
  }
  top_up(kSizeAndOpBytes);
  if (held_ < kSizeFieldBytes || !is_plausible(carry_.first(held_))) return std::nullopt;
  const std::size_t size = wire::load<std::uint16_t>(carry_.data());
  top_up(size);
  if (!is_plausible(carry_.first(held_)) || held_ < std::max(size, kFramePrefixBytes)) {
    return std::nullopt;
  }
  held_ = 0;  // The bytes stay in place until end_chunk, the only one to write there from here on.
  return returned(carry_.first(size));
}

std::optional<Bytes> FrameReader::returned(Bytes frame) noexcept {
  if (state_ == State::hello) state_ = State::hello_returned;
  return frame;
}

// Whether a frame can begin like this, of which the size field at least is there; false after
// fail(). The checks go from byte to byte, so that the verdict is the same however the stream is
// chunked.
bool FrameReader::is_plausible(Bytes beginning) noexcept {
  const std::size_t size = wire::load<std::uint16_t>(beginning.data());
  const bool is_hello = state_ == State::hello;
  if (is_hello) {
    if (beginning.size() < kSizeAndOpBytes) return true;
    const auto fault = fault_in_hello_beginning(beginning.first(kSizeAndOpBytes));
    if (!fault.empty()) return fail(fault);
  }
  if (size < kFramePrefixBytes) return fail("a frame has at least 8 bytes");
  if (size > limit()) {
    return fail(is_hello ? "the first frame is HELLO, of at most 1024 bytes"
                         : "the frame is too long: 16384 bytes at most");
  }
  if (is_hello) {
    const auto fault = fault_in_hello_beginning(beginning.first(std::min(size, beginning.size())));
    if (!fault.empty()) return fail(fault);
  }
  return true;
}

// Copies from the chunk until `wanted` bytes are held, or the chunk is used up.
void FrameReader::top_up(std::size_t wanted) noexcept {
  const std::size_t missing = wanted > held_ ? wanted - held_ : 0;
  const std::size_t size = std::min(missing, rest_.size());
  if (size == 0) return;
  std::memcpy(carry_.data() + held_, rest_.data(), size);
  held_ += size;
  rest_ = rest_.subspan(size);
}

void FrameReader::end_chunk() noexcept {
  if (state_ == State::hello || state_ == State::open) {
    assert(held_ == 0 || rest_.empty());
    assert(rest_.size() < limit());  // else next() had a frame to give
    top_up(std::min(held_ + rest_.size(), carry_.size()));
  }
  rest_ = {};
}

bool FrameReader::fail(std::string_view reason) noexcept {
  failed_before_hello_ = state_ == State::hello;
  state_ = State::failed;
  quick_limit_ = 0;
  held_ = 0;
  reason_ = reason;
  return false;
}

std::optional<DecodeError> FrameReader::error() const noexcept {
  if (state_ != State::failed) return std::nullopt;
  const Op op = failed_before_hello_ ? Op::hello : Op::goaway;
  return DecodeError{Status::bad_request, true, op, 0, reason_};
}

}  // namespace pail::protocol
