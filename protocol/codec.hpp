// Bytes to messages and back, by PROTOCOL.md. Pure functions, no allocation, any alignment.
//
// Decoders take one whole frame (frame_reader.hpp cuts the stream into them), check every rule of
// PROTOCOL.md and name the broken one; they never read outside the frame. Encoders write into the
// caller's buffer and return the number of bytes written; the caller provides room
// (kMaxRequestBytes, kReplyHeaderBytes + body): too small a buffer is the caller's bug and asserted.
#pragma once

#include <tl/expected.hpp>

#include "protocol/messages.hpp"

namespace pail::protocol {

inline constexpr std::size_t kMaxRequestBytes =
    kRequestHeaderBytes + kInlineLimitBytes + kMaxKeyBytes;

// Why a frame was not understood. `fatal`: the stream cannot be trusted any more, answer and close.
struct DecodeError {
  Status status = Status::bad_request;  // bad_request, or not_supported for an unknown operation
  bool fatal = true;
  Op op = Op::ping;           // as far as known, for the reply
  std::uint32_t tag = 0;      // likewise
  std::string_view reason;    // static text: which rule, what would be right
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

}  // namespace pail::protocol
