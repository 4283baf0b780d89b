// Bytes to messages and back, by PROTOCOL.md. Pure functions, no allocation, any alignment.
//
// Decoders take one whole frame (frame_reader.hpp cuts the stream into them), check every rule of
// PROTOCOL.md and name the broken one; they never read outside the frame. Encoders write into the
// caller's buffer and return the number of bytes written; the caller provides room
// (kMaxRequestBytes, kReplyHeaderBytes + body, ...): too small a buffer is the caller's bug and
// asserted.
//
// The two calls on the server's request path are inline: decode_request accepts a well-formed TAKE
// or PEEK with a handful of comparisons and leaves everything else, good or bad, to
// decode_request_slowly, where the rules are written one by one. A test holds the two to the same
// verdict on every frame.
#pragma once

#include <cassert>
#include <optional>
#include <tl/expected.hpp>

#include "protocol/messages.hpp"
#include "protocol/wire.hpp"

namespace pail::protocol {

inline constexpr std::size_t kMaxRequestBytes =
    kRequestHeaderBytes + kInlineLimitBytes + kGrantIdBytes + kMaxKeyBytes;  // but TAKE_ALL
inline constexpr std::size_t kMaxLayeredRequestBytes = kRequestHeaderBytes + kMaxLayersBytes;
inline constexpr std::size_t kMaxErrorReplyBytes = kHelloReplyHeaderBytes + kMaxErrorTextBytes;

// Why a frame was not understood. `fatal`: the stream cannot be trusted any more, answer and close.
struct DecodeError {
  Status status = Status::bad_request;  // bad_request, or not_supported for an unknown operation
  bool fatal = true;
  Op op = Op::goaway;       // the frame's, as far as known; goaway with tag 0 where it is not
  std::uint32_t tag = 0;    // likewise
  std::string_view reason;  // static text: which rule, what would be right
};

template <class T>
using Decoded = tl::expected<T, DecodeError>;

using Buffer = std::span<std::byte>;

// Any request but HELLO.
[[nodiscard]] Decoded<Request> decode_request(Bytes frame) noexcept;
[[nodiscard]] Decoded<Hello> decode_hello(Bytes frame) noexcept;
[[nodiscard]] Decoded<Reply> decode_reply(Bytes frame) noexcept;
[[nodiscard]] Decoded<HelloReply> decode_hello_reply(Bytes frame) noexcept;

std::size_t encode(const Request& request, Buffer out) noexcept;
std::size_t encode(const Hello& hello, Buffer out) noexcept;
std::size_t encode(const Reply& reply, Buffer out) noexcept;
std::size_t encode(const HelloReply& reply, Buffer out) noexcept;

// The reply that tells the peer: a HELLO reply where `error.op` is hello, else an ordinary one. At
// most kMaxErrorReplyBytes.
std::size_t encode(const DecodeError& error, Buffer out) noexcept;

// The layers of a TAKE_ALL, from Request::key and into it. Reading names the first broken rule;
// decode_request() has read them once already.
[[nodiscard]] tl::expected<std::size_t, std::string_view> read_layers(
    Bytes bytes, std::size_t count, std::span<Layer, kMaxLayers> layers) noexcept;
std::size_t encode(std::span<const Layer> layers, Buffer out) noexcept;

// Bodies of replies. Nothing: it is no such body.
std::size_t encode(const Grant& grant, Buffer out) noexcept;
std::size_t encode(std::span<const LayerState> states, Buffer out) noexcept;
[[nodiscard]] std::optional<Grant> read_grant(Bytes body) noexcept;
[[nodiscard]] std::optional<std::size_t> read_layer_states(
    Bytes body, std::span<LayerState, kMaxLayers> states) noexcept;

// Text as the body of a reply. Longer text than kMaxErrorTextBytes is cut by encode().
[[nodiscard]] inline Bytes as_body(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(Bytes body) noexcept {
  return {reinterpret_cast<const char*>(body.data()), body.size()};
}

// What a stream that should open with HELLO begins with, checked on as many bytes as have arrived,
// so that an HTTP request or a TLS handshake is refused at its first bytes and not after a timeout.
// Empty: nothing wrong.
[[nodiscard]] std::string_view fault_in_hello_beginning(Bytes beginning) noexcept;

// Offsets of the fields, as drawn in PROTOCOL.md.
namespace request_at {
inline constexpr std::size_t kSize = 0, kOp = 2, kHeaderSize = 3, kTag = 4, kPolicy = 8, kCost = 12,
                             kExpires = 16, kFlags = 20, kZero = 22, kPeriod = 24, kCount = 32,
                             kBurst = 36;
}
namespace reply_at {
inline constexpr std::size_t kSize = 0, kOp = 2, kStatus = 3, kTag = 4, kGranted = 8,
                             kRemaining = 12, kLimit = 16, kLayer = 20, kInfo = 21,
                             kPolicyVersion = 22, kWait = 24, kReset = 32;
}
static_assert(request_at::kBurst + 4 == kRequestHeaderBytes + kInlineLimitBytes);
static_assert(reply_at::kReset + 8 == kReplyHeaderBytes);

inline constexpr std::uint16_t kFlagPriorityMask = 0x0003;
inline constexpr std::uint16_t kFlagPartial = 0x0004;
inline constexpr std::uint16_t kFlagInline = 0x0008;
inline constexpr std::uint16_t kFlagPlainBits = 0x000F;
inline constexpr std::uint16_t kFlagGrant = 0x0010;  // of TAKE only

// decode_request without the short cut.
[[nodiscard]] Decoded<Request> decode_request_slowly(Bytes frame) noexcept;

namespace detail {

// The fields of a frame whose header is known to lie within it.
inline void read_fields(Bytes frame, std::uint16_t flags, Request& request) noexcept {
  const std::byte* const at = frame.data();
  std::size_t header_bytes = kRequestHeaderBytes;
  request.op = static_cast<Op>(at[request_at::kOp]);
  request.tag = wire::load<std::uint32_t>(at + request_at::kTag);
  request.policy = wire::load<std::uint32_t>(at + request_at::kPolicy);
  request.cost = wire::load<std::uint32_t>(at + request_at::kCost);
  request.expires_us = wire::load<std::uint32_t>(at + request_at::kExpires);
  request.priority = static_cast<std::uint8_t>(flags & kFlagPriorityMask);
  request.partial = (flags & kFlagPartial) != 0;
  request.has_inline_limit = (flags & kFlagInline) != 0;
  if (request.has_inline_limit) {
    header_bytes += kInlineLimitBytes;
    request.inline_limit.period_ns = wire::load<std::uint64_t>(at + request_at::kPeriod);
    request.inline_limit.count = wire::load<std::uint32_t>(at + request_at::kCount);
    request.inline_limit.burst = wire::load<std::uint32_t>(at + request_at::kBurst);
  }
  request.key = frame.subspan(header_bytes);
}

// Whether `frame` is a TAKE or PEEK that breaks no rule. False also means "look closer".
[[nodiscard]] inline bool is_plain(Bytes frame) noexcept {
  if (frame.size() < kRequestHeaderBytes) return false;
  const std::byte* const at = frame.data();
  const auto op = static_cast<Op>(at[request_at::kOp]);
  const auto flags_and_zero = wire::load<std::uint32_t>(at + request_at::kFlags);
  const bool has_inline = (flags_and_zero & kFlagInline) != 0;
  const std::size_t header_bytes = kRequestHeaderBytes + (has_inline ? kInlineLimitBytes : 0);
  const bool has_policy = wire::load<std::uint32_t>(at + request_at::kPolicy) != 0;
  const bool has_cost = wire::load<std::uint32_t>(at + request_at::kCost) != 0;
  return wire::load<std::uint16_t>(at + request_at::kSize) == frame.size() &&
         (flags_and_zero & ~std::uint32_t{kFlagPlainBits}) == 0 &&
         std::to_integer<std::size_t>(at[request_at::kHeaderSize]) * 8 == header_bytes &&
         frame.size() >= header_bytes + kMinKeyBytes &&
         frame.size() <= header_bytes + kMaxKeyBytes &&
         wire::load<std::uint32_t>(at + request_at::kTag) != 0 && has_policy != has_inline &&
         ((op == Op::take && has_cost) || op == Op::peek);
}

// Appends the body of a reply, an error text cut to its limit; returns the frame's size.
std::size_t append_body(const Reply& reply, Buffer out) noexcept;

}  // namespace detail

// The short cut of decode_request alone: true for a TAKE or PEEK that breaks no rule, and `request`
// is filled in. Where it stays in registers, decoding costs a third of what it does through a
// result that is copied: see docs/decisions.md.
[[nodiscard]] inline bool decode_plain(Bytes frame, Request& request) noexcept {
  if (!detail::is_plain(frame)) [[unlikely]]
    return false;
  detail::read_fields(frame, wire::load<std::uint16_t>(frame.data() + request_at::kFlags), request);
  return true;
}

inline Decoded<Request> decode_request(Bytes frame) noexcept {
  Decoded<Request> request;
  if (!decode_plain(frame, *request)) [[unlikely]]
    return decode_request_slowly(frame);
  return request;
}

// A reply without a body, of kReplyHeaderBytes.
inline void encode_plain(const Reply& reply, std::byte* at) noexcept {
  wire::store(at + reply_at::kSize, static_cast<std::uint16_t>(kReplyHeaderBytes));
  wire::store(at + reply_at::kOp, static_cast<std::uint8_t>(reply.op));
  wire::store(at + reply_at::kStatus, static_cast<std::uint8_t>(reply.status));
  wire::store(at + reply_at::kTag, reply.tag);
  wire::store(at + reply_at::kGranted, reply.granted);
  wire::store(at + reply_at::kRemaining, reply.remaining);
  wire::store(at + reply_at::kLimit, reply.limit);
  wire::store(at + reply_at::kLayer, reply.layer);
  wire::store(at + reply_at::kInfo, reply.info);
  wire::store(at + reply_at::kPolicyVersion, reply.policy_version);
  wire::store(at + reply_at::kWait, reply.wait_ns);
  wire::store(at + reply_at::kReset, reply.reset_ns);
}

inline std::size_t encode(const Reply& reply, Buffer out) noexcept {
  assert(out.size() >= kReplyHeaderBytes);
  encode_plain(reply, out.data());
  if (reply.body.empty()) return kReplyHeaderBytes;
  const std::size_t size = detail::append_body(reply, out);
  wire::store(out.data() + reply_at::kSize, static_cast<std::uint16_t>(size));
  return size;
}

}  // namespace pail::protocol
