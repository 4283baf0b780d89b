// The rules of PROTOCOL.md, one by one and in its order: the first broken rule is the one that is
// named.
#include "protocol/codec.hpp"

#include <algorithm>
#include <array>

namespace pail::protocol {
namespace {

constexpr std::string_view kMagic = "PAIL";
constexpr std::string_view kFirstFrameMustBeHello =
    "this port speaks Pail's native protocol: the first frame must be HELLO";

namespace hello_at {
constexpr std::size_t kSize = 0, kOp = 2, kHeaderSize = 3, kTag = 4, kMagicWord = 8,
                      kMinVersion = 12, kMaxVersion = 14, kFeatures = 16, kTokenSize = 20,
                      kNameSize = 22;
}
namespace hello_reply_at {
constexpr std::size_t kSize = 0, kOp = 2, kStatus = 3, kTag = 4, kVersionUsed = 8, kZero = 10,
                      kFeatures = 12, kBootId = 16, kClock = 24, kMaxFrame = 32, kMaxKey = 36,
                      kConfiguration = 40, kZeroToo = 44;
}
static_assert(hello_at::kNameSize + 2 == kHelloHeaderBytes);
static_assert(hello_reply_at::kZeroToo + 4 == kHelloReplyHeaderBytes);

std::uint8_t byte_at(Bytes frame, std::size_t offset) noexcept {
  return std::to_integer<std::uint8_t>(frame[offset]);
}

bool size_field_is_wrong(Bytes frame) noexcept {
  return wire::load<std::uint16_t>(frame.data()) != frame.size();
}

bool is_printable(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; });
}

// An error about a frame whose prefix can be read: the reply names its operation and tag.
tl::unexpected<DecodeError> fault(Bytes frame, bool fatal, std::string_view reason,
                                  Status status = Status::bad_request) noexcept {
  return tl::unexpected(DecodeError{status, fatal, static_cast<Op>(byte_at(frame, request_at::kOp)),
                                    wire::load<std::uint32_t>(frame.data() + request_at::kTag),
                                    reason});
}

tl::unexpected<DecodeError> unreadable(std::string_view reason) noexcept {
  return tl::unexpected(DecodeError{Status::bad_request, true, Op::goaway, 0, reason});
}

tl::unexpected<DecodeError> no_hello(Bytes frame, std::string_view reason) noexcept {
  const bool is_hello = byte_at(frame, hello_at::kOp) == static_cast<std::uint8_t>(Op::hello);
  const auto tag = is_hello ? wire::load<std::uint32_t>(frame.data() + hello_at::kTag) : 0;
  return tl::unexpected(DecodeError{Status::bad_request, true, Op::hello, tag, reason});
}

std::size_t append_text(std::string_view text, std::size_t header_bytes, Buffer out) noexcept {
  const std::size_t size = std::min(text.size(), kMaxErrorTextBytes);
  assert(out.size() >= header_bytes + size);
  if (size != 0) std::memcpy(out.data() + header_bytes, text.data(), size);
  return header_bytes + size;
}

std::string_view fault_in_layers(const Request& request) noexcept {
  if (request.policy != 0) return "the layer set of a TAKE_ALL is 0 in this version";
  if (request.partial || request.has_inline_limit) return "TAKE_ALL has no flags but the priority";
  if (request.cost < 1 || request.cost > kMaxLayers) return "a TAKE_ALL has 1 to 8 layers";
  std::array<Layer, kMaxLayers> layers;
  const auto read = read_layers(request.key, request.cost, layers);
  return read ? "" : read.error();
}

std::string_view fault_in_grant_request(const Request& request) noexcept {
  if (request.has_inline_limit) return "grants are by policy: no inline limit";
  if (request.cost == 0 && request.op != Op::settle) return "the cost of a grant is at least 1";
  if (request.op == Op::lease && request.partial) return "a LEASE is partial anyway: no flag";
  if (names_grant(request.op) && (request.priority != 0 || request.partial)) {
    return "what names a grant has priority 0 and no partial flag";
  }
  return "";
}

// What remains to be checked per operation. Empty: nothing is wrong.
std::string_view fault_in_fields(const Request& request) noexcept {
  if (request.op == Op::ping) {
    const bool uses_nothing = request.policy == 0 && request.cost == 0 && request.expires_us == 0 &&
                              request.priority == 0 && !request.partial &&
                              !request.has_inline_limit && request.key.empty();
    return uses_nothing ? "" : "PING has no key and its fields after the tag are zero";
  }
  if (request.op == Op::stats) {
    const bool is_plain = request.priority == 0 && !request.partial && !request.has_inline_limit &&
                          request.key.empty();
    return is_plain ? "" : "STATS has no flags and no key";
  }
  if (request.op == Op::take_all) return fault_in_layers(request);
  if (request.op == Op::policy && (request.policy != 0 || request.priority != 0 ||
                                   request.partial || request.has_inline_limit)) {
    return "POLICY names what it is about in its words: policy 0 and no flags";
  }
  if (request.key.size() < kMinKeyBytes) return "the key is empty: 1 to 1024 bytes";
  if (request.key.size() > kMaxKeyBytes) return "the key is too long: 1 to 1024 bytes";
  if (request.has_inline_limit && request.policy != 0) {
    return "a request with an inline limit names policy 0";
  }
  if (!request.has_inline_limit && request.policy == 0 && request.op != Op::policy) {
    return "the request names neither a policy nor an inline limit";
  }
  if (request.op == Op::take && request.cost == 0) {
    return "the cost of a TAKE is at least 1; PEEK looks without taking";
  }
  if (request.op == Op::reset && (request.cost != 0 || request.priority != 0 || request.partial)) {
    return "RESET has cost 0, priority 0 and no partial flag";
  }
  const bool has_grant = request.wants_grant || request.op == Op::acquire ||
                         request.op == Op::lease || names_grant(request.op);
  return has_grant ? fault_in_grant_request(request) : "";
}

}  // namespace

Decoded<Request> decode_request_slowly(Bytes frame) noexcept {
  if (frame.size() < kFramePrefixBytes) return unreadable("a frame has at least 8 bytes");
  if (size_field_is_wrong(frame)) return unreadable("the size field is not the frame's size");

  switch (const auto op = static_cast<Op>(byte_at(frame, request_at::kOp)); op) {
    case Op::ping:
    case Op::take:
    case Op::peek:
    case Op::reset:
    case Op::stats:
    case Op::take_all:
    case Op::settle:
    case Op::acquire:
    case Op::renew:
    case Op::release:
    case Op::lease:
    case Op::give_back:
    case Op::policy:
      break;
    case Op::hello:
      return unreadable("HELLO comes once, as the first frame");
    case Op::goaway:
    case Op::policy_changed:
    default:  // Any byte may arrive, so this switch has more cases than the enumeration.
      return fault(frame, false, "this server does not know the operation", Status::not_supported);
  }

  if (frame.size() < kRequestHeaderBytes) {
    return fault(frame, true, "a request has at least 24 bytes");
  }
  const auto flags = wire::load<std::uint16_t>(frame.data() + request_at::kFlags);
  const auto zero = wire::load<std::uint16_t>(frame.data() + request_at::kZero);
  const auto op = static_cast<Op>(byte_at(frame, request_at::kOp));
  const unsigned known = kFlagPlainBits | (op == Op::take ? unsigned{kFlagGrant} : 0u);
  if ((flags & ~known) != 0 || zero != 0) {
    return fault(frame, true,
                 "a reserved bit is set: bits 4 (but of TAKE) to 15 of the flags and bytes 22, 23");
  }
  const bool has_inline = (flags & kFlagInline) != 0;
  const std::size_t grant_at = kRequestHeaderBytes + (has_inline ? kInlineLimitBytes : 0);
  const std::size_t header_bytes = grant_at + (names_grant(op) ? kGrantIdBytes : 0);
  if (std::size_t{byte_at(frame, request_at::kHeaderSize)} * 8 != header_bytes) {
    return fault(
        frame, true,
        "the header size is 3, or 5 with an inline limit, and 1 more with a grant (units of "
        "8 bytes)");
  }
  if (frame.size() < header_bytes) {
    return fault(frame, true, "the frame is shorter than its header");
  }

  Decoded<Request> request;
  detail::read_fields(frame, flags, *request);
  request->wants_grant = (flags & kFlagGrant) != 0;
  if (names_grant(op)) {
    request->grant = wire::load<std::uint64_t>(frame.data() + grant_at);
    request->key = frame.subspan(header_bytes);
  }
  if (request->tag == 0) return fault(frame, false, "tag 0 is the server's own: use another");
  const std::string_view reason = fault_in_fields(*request);
  if (!reason.empty()) return fault(frame, false, reason);
  return request;
}

std::string_view fault_in_hello_beginning(Bytes beginning) noexcept {
  if (beginning.size() > hello_at::kOp &&
      byte_at(beginning, hello_at::kOp) != static_cast<std::uint8_t>(Op::hello)) {
    return kFirstFrameMustBeHello;
  }
  for (std::size_t i = 0; i < kMagic.size() && hello_at::kMagicWord + i < beginning.size(); ++i) {
    if (byte_at(beginning, hello_at::kMagicWord + i) != static_cast<std::uint8_t>(kMagic[i])) {
      return "HELLO carries \"PAIL\" at byte 8";
    }
  }
  return "";
}

Decoded<Hello> decode_hello(Bytes frame) noexcept {
  if (frame.size() < kFramePrefixBytes || size_field_is_wrong(frame)) {
    return tl::unexpected(
        DecodeError{Status::bad_request, true, Op::hello, 0, kFirstFrameMustBeHello});
  }
  const std::string_view reason = fault_in_hello_beginning(frame);
  if (!reason.empty()) return no_hello(frame, reason);
  if (frame.size() < kHelloHeaderBytes || frame.size() > kMaxHelloBytes) {
    return no_hello(frame, "HELLO has 24 to 1024 bytes");
  }

  const std::byte* const at = frame.data();
  const std::size_t header_bytes = std::size_t{byte_at(frame, hello_at::kHeaderSize)} * 8;
  const std::size_t token_bytes = wire::load<std::uint16_t>(at + hello_at::kTokenSize);
  const std::size_t name_bytes = wire::load<std::uint16_t>(at + hello_at::kNameSize);
  if (header_bytes < kHelloHeaderBytes) return no_hello(frame, "HELLO's header size is at least 3");
  if (token_bytes > kMaxTokenBytes)
    return no_hello(frame, "the token is too long: 256 bytes at most");
  if (name_bytes > kMaxClientNameBytes) {
    return no_hello(frame, "the client name is too long: 64 bytes at most");
  }
  if (header_bytes + token_bytes + name_bytes != frame.size()) {
    return no_hello(frame, "HELLO is its header, its token and its client name, and nothing else");
  }

  // Bytes between our 24 and the header's end belong to a later version, which we will not agree
  // on.
  Hello hello;
  hello.tag = wire::load<std::uint32_t>(at + hello_at::kTag);
  hello.min_version = wire::load<std::uint16_t>(at + hello_at::kMinVersion);
  hello.max_version = wire::load<std::uint16_t>(at + hello_at::kMaxVersion);
  hello.features = wire::load<std::uint32_t>(at + hello_at::kFeatures);
  hello.token = as_text(frame.subspan(header_bytes, token_bytes));
  hello.client_name = as_text(frame.subspan(header_bytes + token_bytes, name_bytes));
  if (hello.min_version == 0 || hello.min_version > hello.max_version) {
    return no_hello(frame, "the lowest version is at least 1 and at most the highest");
  }
  if (!is_printable(hello.client_name)) {
    return no_hello(frame, "the client name is printable ASCII");
  }
  return hello;
}

Decoded<Reply> decode_reply(Bytes frame) noexcept {
  if (frame.size() < kFramePrefixBytes) return unreadable("a frame has at least 8 bytes");
  if (size_field_is_wrong(frame)) return unreadable("the size field is not the frame's size");
  if (frame.size() < kReplyHeaderBytes) return fault(frame, true, "a reply has at least 40 bytes");
  const std::byte* const at = frame.data();
  Reply reply;
  reply.op = static_cast<Op>(byte_at(frame, reply_at::kOp));
  reply.status = static_cast<Status>(byte_at(frame, reply_at::kStatus));
  reply.tag = wire::load<std::uint32_t>(at + reply_at::kTag);
  reply.granted = wire::load<std::uint32_t>(at + reply_at::kGranted);
  reply.remaining = wire::load<std::uint32_t>(at + reply_at::kRemaining);
  reply.limit = wire::load<std::uint32_t>(at + reply_at::kLimit);
  reply.layer = byte_at(frame, reply_at::kLayer);
  reply.info = byte_at(frame, reply_at::kInfo);
  reply.policy_version = wire::load<std::uint16_t>(at + reply_at::kPolicyVersion);
  reply.wait_ns = wire::load<std::uint64_t>(at + reply_at::kWait);
  reply.reset_ns = wire::load<std::uint64_t>(at + reply_at::kReset);
  reply.body = frame.subspan(kReplyHeaderBytes);

  if (reply.op == Op::hello) return fault(frame, true, "a HELLO reply where there was no HELLO");
  if (static_cast<std::uint8_t>(reply.status) >= kStatusCount) {
    return fault(frame, true, "the status is not one of version 1");
  }
  if (reply.layer >= kMaxLayers && reply.layer != kNoLayer) {
    return fault(frame, true, "the layer is 0 to 7, or 255 for none");
  }
  if ((reply.info & ~unsigned{kInfoKnownBits}) != 0) {
    return fault(frame, true, "a reserved bit of the info byte is set");
  }
  if (!is_decision(reply.status) && reply.body.size() > kMaxErrorTextBytes) {
    return fault(frame, true, "the error text is too long: 256 bytes at most");
  }
  return reply;
}

Decoded<HelloReply> decode_hello_reply(Bytes frame) noexcept {
  if (frame.size() < kFramePrefixBytes) return unreadable("a frame has at least 8 bytes");
  if (size_field_is_wrong(frame)) return unreadable("the size field is not the frame's size");
  if (byte_at(frame, hello_reply_at::kOp) != static_cast<std::uint8_t>(Op::hello)) {
    return fault(frame, true, "the first reply is HELLO's");
  }
  if (frame.size() < kHelloReplyHeaderBytes) {
    return fault(frame, true, "a HELLO reply has at least 48 bytes");
  }
  const std::byte* const at = frame.data();
  HelloReply reply;
  reply.status = static_cast<Status>(byte_at(frame, hello_reply_at::kStatus));
  reply.tag = wire::load<std::uint32_t>(at + hello_reply_at::kTag);
  reply.version = wire::load<std::uint16_t>(at + hello_reply_at::kVersionUsed);
  reply.features = wire::load<std::uint32_t>(at + hello_reply_at::kFeatures);
  reply.boot_id = wire::load<std::uint64_t>(at + hello_reply_at::kBootId);
  reply.clock_us = wire::load<std::uint64_t>(at + hello_reply_at::kClock);
  reply.max_frame_bytes = wire::load<std::uint32_t>(at + hello_reply_at::kMaxFrame);
  reply.max_key_bytes = wire::load<std::uint32_t>(at + hello_reply_at::kMaxKey);
  reply.configuration_version = wire::load<std::uint32_t>(at + hello_reply_at::kConfiguration);
  reply.error = as_text(frame.subspan(kHelloReplyHeaderBytes));

  if (static_cast<std::uint8_t>(reply.status) >= kStatusCount) {
    return fault(frame, true, "the status is not one of version 1");
  }
  if (wire::load<std::uint16_t>(at + hello_reply_at::kZero) != 0 ||
      wire::load<std::uint32_t>(at + hello_reply_at::kZeroToo) != 0) {
    return fault(frame, true, "a reserved byte is set: bytes 10, 11 and 44 to 47");
  }
  if (reply.error.size() > kMaxErrorTextBytes) {
    return fault(frame, true, "the error text is too long: 256 bytes at most");
  }
  if (reply.status == Status::ok && !reply.error.empty()) {
    return fault(frame, true, "an error text without an error");
  }
  return reply;
}

std::size_t encode(const Request& request, Buffer out) noexcept {
  const std::size_t grant_at =
      kRequestHeaderBytes + (request.has_inline_limit ? kInlineLimitBytes : 0);
  const std::size_t header_bytes = grant_at + (names_grant(request.op) ? kGrantIdBytes : 0);
  const std::size_t size = header_bytes + request.key.size();
  assert(size <= kMaxFrameBytes && size <= out.size());
  assert(request.priority <= kMaxPriority);
  const unsigned flags = request.priority | (request.partial ? kFlagPartial : 0u) |
                         (request.has_inline_limit ? kFlagInline : 0u) |
                         (request.wants_grant ? kFlagGrant : 0u);
  std::byte* const at = out.data();
  wire::store(at + request_at::kSize, static_cast<std::uint16_t>(size));
  wire::store(at + request_at::kOp, static_cast<std::uint8_t>(request.op));
  wire::store(at + request_at::kHeaderSize, static_cast<std::uint8_t>(header_bytes / 8));
  wire::store(at + request_at::kTag, request.tag);
  wire::store(at + request_at::kPolicy, request.policy);
  wire::store(at + request_at::kCost, request.cost);
  wire::store(at + request_at::kExpires, request.expires_us);
  wire::store(at + request_at::kFlags, static_cast<std::uint16_t>(flags));
  wire::store(at + request_at::kZero, std::uint16_t{0});
  if (request.has_inline_limit) {
    wire::store(at + request_at::kPeriod, request.inline_limit.period_ns);
    wire::store(at + request_at::kCount, request.inline_limit.count);
    wire::store(at + request_at::kBurst, request.inline_limit.burst);
  }
  if (names_grant(request.op)) wire::store(at + grant_at, request.grant);
  if (!request.key.empty()) std::memcpy(at + header_bytes, request.key.data(), request.key.size());
  return size;
}

std::size_t encode(const Hello& hello, Buffer out) noexcept {
  const std::size_t size = kHelloHeaderBytes + hello.token.size() + hello.client_name.size();
  assert(hello.token.size() <= kMaxTokenBytes && hello.client_name.size() <= kMaxClientNameBytes);
  assert(size <= out.size());
  std::byte* const at = out.data();
  wire::store(at + hello_at::kSize, static_cast<std::uint16_t>(size));
  wire::store(at + hello_at::kOp, static_cast<std::uint8_t>(Op::hello));
  wire::store(at + hello_at::kHeaderSize, static_cast<std::uint8_t>(kHelloHeaderBytes / 8));
  wire::store(at + hello_at::kTag, hello.tag);
  std::memcpy(at + hello_at::kMagicWord, kMagic.data(), kMagic.size());
  wire::store(at + hello_at::kMinVersion, hello.min_version);
  wire::store(at + hello_at::kMaxVersion, hello.max_version);
  wire::store(at + hello_at::kFeatures, hello.features);
  wire::store(at + hello_at::kTokenSize, static_cast<std::uint16_t>(hello.token.size()));
  wire::store(at + hello_at::kNameSize, static_cast<std::uint16_t>(hello.client_name.size()));
  std::byte* end = at + kHelloHeaderBytes;
  end = std::copy_n(as_body(hello.token).data(), hello.token.size(), end);
  std::copy_n(as_body(hello.client_name).data(), hello.client_name.size(), end);
  return size;
}

std::size_t encode(const HelloReply& reply, Buffer out) noexcept {
  assert(out.size() >= kHelloReplyHeaderBytes);
  const std::size_t size = append_text(reply.error, kHelloReplyHeaderBytes, out);
  std::byte* const at = out.data();
  wire::store(at + hello_reply_at::kSize, static_cast<std::uint16_t>(size));
  wire::store(at + hello_reply_at::kOp, static_cast<std::uint8_t>(Op::hello));
  wire::store(at + hello_reply_at::kStatus, static_cast<std::uint8_t>(reply.status));
  wire::store(at + hello_reply_at::kTag, reply.tag);
  wire::store(at + hello_reply_at::kVersionUsed, reply.version);
  wire::store(at + hello_reply_at::kZero, std::uint16_t{0});
  wire::store(at + hello_reply_at::kFeatures, reply.features);
  wire::store(at + hello_reply_at::kBootId, reply.boot_id);
  wire::store(at + hello_reply_at::kClock, reply.clock_us);
  wire::store(at + hello_reply_at::kMaxFrame, reply.max_frame_bytes);
  wire::store(at + hello_reply_at::kMaxKey, reply.max_key_bytes);
  wire::store(at + hello_reply_at::kConfiguration, reply.configuration_version);
  wire::store(at + hello_reply_at::kZeroToo, std::uint32_t{0});
  return size;
}

std::size_t encode(const DecodeError& error, Buffer out) noexcept {
  if (error.op == Op::hello) {
    HelloReply reply;
    reply.status = error.status;
    reply.tag = error.tag;
    reply.version = kVersion;
    reply.max_frame_bytes = kMaxFrameBytes;
    reply.max_key_bytes = kMaxKeyBytes;
    reply.error = error.reason;
    return encode(reply, out);
  }
  Reply reply;
  reply.op = error.op;
  reply.status = error.status;
  reply.tag = error.tag;
  reply.body = as_body(error.reason);
  return encode(reply, out);
}

std::size_t detail::append_body(const Reply& reply, Buffer out) noexcept {
  if (!is_decision(reply.status)) return append_text(as_text(reply.body), kReplyHeaderBytes, out);
  const std::size_t size = kReplyHeaderBytes + reply.body.size();
  assert(size <= kMaxFrameBytes && size <= out.size());
  // The body may have been written in place already.
  std::memmove(out.data() + kReplyHeaderBytes, reply.body.data(), reply.body.size());
  return size;
}

}  // namespace pail::protocol
