// The vocabulary of the native protocol, version 1: operations, statuses, sizes and decoded
// messages.
//
// PROTOCOL.md is the authority for what the bytes mean; codec.hpp turns bytes into these values and
// back. Everything here is a plain value: no I/O, no clock, no allocation. A decoded message
// borrows its key from the buffer that it was decoded from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pail::protocol {

using Bytes = std::span<const std::byte>;

inline constexpr std::uint16_t kVersion = 1;

// Sizes in bytes. Every multi-byte field is little-endian and may be unaligned.
inline constexpr std::size_t kMaxFrameBytes = 16 * 1024;  // any frame, its header included
inline constexpr std::size_t kMaxHelloBytes = 1024;  // all that is read before HELLO is accepted
inline constexpr std::size_t kFramePrefixBytes = 8;  // what every frame begins with
inline constexpr std::size_t kRequestHeaderBytes = 24;
inline constexpr std::size_t kInlineLimitBytes = 16;
inline constexpr std::size_t kReplyHeaderBytes = 40;
inline constexpr std::size_t kHelloHeaderBytes = 24;
inline constexpr std::size_t kHelloReplyHeaderBytes = 48;
inline constexpr std::size_t kMinKeyBytes = 1;
inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxErrorTextBytes = 256;
inline constexpr std::size_t kMaxClientNameBytes = 64;
inline constexpr std::size_t kMaxTokenBytes = 256;
inline constexpr std::size_t kMaxLayers = 8;
inline constexpr std::size_t kGrantIdBytes = 8;  // in a request, before the key
inline constexpr std::size_t kGrantBytes = 16;   // in a reply, its body
inline constexpr std::size_t kLayerHeaderBytes = 12;
inline constexpr std::size_t kLayerStateBytes = 16;
inline constexpr std::size_t kMaxLayersBytes = kMaxLayers * (kLayerHeaderBytes + kMaxKeyBytes);
inline constexpr std::size_t kMaxPolicyBodyBytes = 8 * 1024;  // of a POLICY reply
inline constexpr std::uint8_t kMaxPriority = 3;
inline constexpr std::uint8_t kNoLayer = 255;
inline constexpr std::uint64_t kWaitForever = ~std::uint64_t{0};  // wait_ns of `never`

static_assert(kMaxHelloBytes <= kMaxFrameBytes);
static_assert(kRequestHeaderBytes + kInlineLimitBytes + kMaxKeyBytes <= kMaxFrameBytes);
static_assert(kReplyHeaderBytes + kMaxErrorTextBytes <= kMaxFrameBytes);
static_assert(kRequestHeaderBytes + kMaxLayersBytes <= kMaxFrameBytes);
static_assert(kHelloHeaderBytes + kMaxTokenBytes + kMaxClientNameBytes <= kMaxHelloBytes);
static_assert(kMaxFrameBytes <= UINT16_MAX, "the size field has 16 bits");

// Operations. The numbers are the wire's; a gap is reserved and answered `not_supported`.
enum class Op : std::uint8_t {
  ping = 0x01,
  take = 0x02,
  peek = 0x03,
  take_all = 0x04,
  lease = 0x05,
  give_back = 0x06,  // RETURN
  settle = 0x07,
  acquire = 0x08,
  renew = 0x09,
  release = 0x0A,
  reset = 0x0B,
  policy = 0x0C,
  stats = 0x0D,
  goaway = 0x70,  // server to client, tag 0: send no more; ok: draining, else: why it closes
  policy_changed = 0x71,  // server to client, tag 0: ask HELLO or POLICY again
  hello = 0x7F,
};

enum class Status : std::uint8_t {
  ok = 0,
  denied = 1,      // no budget now; wait_ns says when
  shed = 2,        // refused by a reserve kept for higher priorities
  never = 3,       // the cost can never fit: permanent
  table_full = 4,  // no memory for a new key
  expired = 5,     // the caller's deadline had passed: nothing was charged
  unknown_policy = 6,
  bad_request = 7,
  unauthorized = 8,
  overloaded = 9,
  not_supported = 10,
};
inline constexpr std::uint8_t kStatusCount = 11;

// A decision: its body is what the operation adds. Any other status is an error: its body is text.
[[nodiscard]] constexpr bool is_decision(Status status) noexcept {
  return status <= Status::never;
}

// Bits of Reply::info.
inline constexpr std::uint8_t kInfoShadow =
    0x01;  // the policy only counts: it would have been refused
inline constexpr std::uint8_t kInfoOverride = 0x02;  // this key has a limit of its own
inline constexpr std::uint8_t kInfoMore = 0x04;      // another reply with this tag follows
inline constexpr std::uint8_t kInfoKnownBits = 0x07;

// "take", "denied": the names of PROTOCOL.md, for logs and people. "unknown" for a number not
// listed.
[[nodiscard]] std::string_view name(Op op) noexcept;
[[nodiscard]] std::string_view name(Status status) noexcept;

// A token bucket given in the request itself: `count` tokens every `period_ns`, at most `burst` at
// once.
struct InlineLimit {
  std::uint64_t period_ns = 0;
  std::uint32_t count = 0;
  std::uint32_t burst = 0;
  friend bool operator==(const InlineLimit&, const InlineLimit&) = default;
};

// Every operation but HELLO. Of TAKE_ALL `cost` is the number of layers and `key` their bytes (see
// read_layers() in codec.hpp). STATS names
// the shard in `policy` and the first number wanted in `cost`; POLICY the first line wanted in
// `cost`, and its words are in `key` with a zero byte between them.
struct Request {
  Op op = Op::ping;
  std::uint32_t tag = 0;         // echoed in the reply; not 0, which is the server's own
  std::uint32_t policy = 0;      // policy_id(name); 0 with an inline limit
  std::uint32_t cost = 0;        // tokens
  std::uint32_t expires_us = 0;  // server clock modulo 2^32 microseconds; 0: none
  std::uint8_t priority = 0;     // 0 lowest to 3
  bool partial = false;          // grant what there is, if less than the cost
  bool wants_grant = false;      // TAKE: answer with a grant, for SETTLE
  bool has_inline_limit = false;
  InlineLimit inline_limit;
  std::uint64_t grant = 0;  // SETTLE, RENEW, RELEASE, RETURN
  Bytes key;
};

// One limit of a TAKE_ALL.
struct Layer {
  std::uint32_t policy = 0;
  std::uint32_t cost = 0;
  Bytes key;
};

// What a TAKE_ALL is told about one layer.
struct LayerState {
  std::uint32_t remaining = 0;
  std::uint32_t limit = 0;
  std::uint64_t reset_ns = 0;
  friend bool operator==(const LayerState&, const LayerState&) = default;
};

// What an admitted ACQUIRE, RENEW or LEASE, or a TAKE that wants one, is answered with.
struct Grant {
  std::uint64_t id = 0;
  std::uint32_t ttl_us = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};

// Whether requests of this operation carry a grant's id before the key.
[[nodiscard]] constexpr bool names_grant(Op op) noexcept {
  return op == Op::settle || op == Op::renew || op == Op::release || op == Op::give_back;
}

struct Reply {
  Op op = Op::ping;
  Status status = Status::ok;
  std::uint32_t tag = 0;
  std::uint32_t granted = 0;
  std::uint32_t remaining = 0;
  std::uint32_t limit = 0;
  std::uint8_t layer = kNoLayer;
  std::uint8_t info = 0;
  std::uint16_t policy_version = 0;
  std::uint64_t wait_ns = 0;   // ok: hold the request; refused: retry after; never: kWaitForever
  std::uint64_t reset_ns = 0;  // until the key is as good as new
  Bytes body;  // error text (UTF-8) where the status is an error; else what the op adds
};

// The client's first frame. Any tag will do.
struct Hello {
  std::uint32_t tag = 0;
  std::uint16_t min_version = kVersion;
  std::uint16_t max_version = kVersion;
  std::uint32_t features = 0;
  std::string_view token;        // empty: none
  std::string_view client_name;  // for the operator's eyes
};

// The server's answer to it.
struct HelloReply {
  Status status = Status::ok;
  std::uint32_t tag = 0;
  std::uint16_t version = kVersion;
  std::uint32_t features = 0;
  std::uint64_t boot_id = 0;   // changes whenever the server's memory starts empty
  std::uint64_t clock_us = 0;  // the server's clock; expires_us is this modulo 2^32
  std::uint32_t max_frame_bytes = 0;
  std::uint32_t max_key_bytes = 0;
  std::uint32_t configuration_version = 0;
  std::string_view error;  // why, where the status is not ok
};

// The version that both sides speak, 0 if there is none.
[[nodiscard]] constexpr std::uint16_t negotiate_version(const Hello& hello) noexcept {
  if (hello.min_version > kVersion || hello.max_version < kVersion) return 0;
  return kVersion;
}

// Whether the caller's deadline has passed. Both are microseconds of the server's clock modulo
// 2^32, so a deadline lies at most 2^31 us (35 minutes) ahead. A caller whose deadline comes to 0
// sends 1.
[[nodiscard]] constexpr bool has_expired(std::uint32_t expires_us, std::uint32_t now_us) noexcept {
  const std::uint32_t late_us = now_us - expires_us;
  return expires_us != 0 && late_us != 0 && late_us < 0x8000'0000u;
}

// The 32-bit name of a policy on the wire: XXH32 of the name with seed 0; never 0 (a name that
// hashes to 0 gets 1). Two configured names with one id are a configuration error.
[[nodiscard]] std::uint32_t policy_id(std::string_view name) noexcept;

}  // namespace pail::protocol
