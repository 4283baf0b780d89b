// What tests of the protocol share: messages compared and printed field by field, random messages,
// and bytes in a heap buffer of exactly their size, so that the address sanitizer sees a read one
// byte too far.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "protocol/codec.hpp"
#include "tests/support/random.hpp"

namespace pail::test {

class ExactBytes {
 public:
  explicit ExactBytes(protocol::Bytes source)
      : data_(new std::byte[source.size()]), size_(source.size()) {
    if (size_ != 0) std::memcpy(data_.get(), source.data(), size_);
  }
  [[nodiscard]] protocol::Bytes bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_;
};

inline std::string to_hex(protocol::Bytes bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

inline std::string describe(const protocol::Request& r) {
  const auto n = [](auto value) { return std::to_string(value) + " "; };
  return n(static_cast<unsigned>(r.op)) + "tag " + n(r.tag) + "policy " + n(r.policy) + "cost " +
         n(r.cost) + "expires " + n(r.expires_us) + "priority " + n(r.priority) + "partial " +
         n(r.partial) + "inline " + n(r.has_inline_limit) + n(r.inline_limit.period_ns) +
         n(r.inline_limit.count) + n(r.inline_limit.burst) + "grant " + n(r.wants_grant) +
         n(r.grant) + "key " + to_hex(r.key);
}

inline std::string describe(const protocol::Reply& r) {
  const auto n = [](auto value) { return std::to_string(value) + " "; };
  return n(static_cast<unsigned>(r.op)) + "status " + n(static_cast<unsigned>(r.status)) + "tag " +
         n(r.tag) + "granted " + n(r.granted) + "remaining " + n(r.remaining) + "limit " +
         n(r.limit) + "layer " + n(r.layer) + "info " + n(r.info) + "version " +
         n(r.policy_version) + "wait " + n(r.wait_ns) + "reset " + n(r.reset_ns) + "body " +
         to_hex(r.body);
}

inline std::string describe(const protocol::Hello& h) {
  const auto n = [](auto value) { return std::to_string(value) + " "; };
  return "tag " + n(h.tag) + "versions " + n(h.min_version) + n(h.max_version) + "features " +
         n(h.features) + "token " + to_hex(protocol::as_body(h.token)) + " name " +
         to_hex(protocol::as_body(h.client_name));
}

inline std::string describe(const protocol::HelloReply& r) {
  const auto n = [](auto value) { return std::to_string(value) + " "; };
  return "status " + n(static_cast<unsigned>(r.status)) + "tag " + n(r.tag) + "version " +
         n(r.version) + "features " + n(r.features) + "boot " + n(r.boot_id) + "clock " +
         n(r.clock_us) + "frame " + n(r.max_frame_bytes) + "key " + n(r.max_key_bytes) +
         "configuration " + n(r.configuration_version) + "error " +
         to_hex(protocol::as_body(r.error));
}

inline std::string describe(const protocol::DecodeError& e) {
  return std::string(name(e.status)) + (e.fatal ? " fatal" : "") + " op " +
         std::to_string(static_cast<unsigned>(e.op)) + " tag " + std::to_string(e.tag) + ": " +
         std::string(e.reason);
}

// The frame of a message.
template <class Message>
std::vector<std::byte> encoded(const Message& message) {
  std::array<std::byte, protocol::kMaxFrameBytes> out;  // not zeroed: that would dominate the tests
  const std::size_t size = protocol::encode(message, out);
  return {out.begin(), out.begin() + size};
}

inline std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

// A valid request; `key` keeps its bytes.
inline protocol::Request random_request(Random& random, std::vector<std::byte>& key) {
  using protocol::Op;
  constexpr Op kOps[] = {Op::take,    Op::take,   Op::take,  Op::peek,    Op::reset,
                         Op::acquire, Op::settle, Op::renew, Op::release, Op::ping};
  const auto u32 = [&] { return static_cast<std::uint32_t>(random.magnitude(1, UINT32_MAX)); };
  protocol::Request request;
  request.op = kOps[random.below(std::size(kOps))];
  request.tag = u32();
  if (request.op == Op::ping) return request;
  key = random_bytes(
      random, random.one_in(8) ? random.between(1, protocol::kMaxKeyBytes) : random.between(1, 24));
  request.key = key;
  request.expires_us = random.one_in(2) ? u32() : 0;
  if (request.op == Op::acquire || protocol::names_grant(request.op)) {
    request.policy = u32();
    request.cost = u32();
    if (request.op == Op::acquire) {
      request.priority = static_cast<std::uint8_t>(random.below(4));
      request.partial = random.one_in(2);
    } else {
      request.grant = random.next();
    }
    return request;
  }
  if (request.op != Op::reset) {
    request.cost = request.op == Op::peek && random.one_in(2) ? 0 : u32();
    request.priority = static_cast<std::uint8_t>(random.below(4));
    request.partial = random.one_in(2);
  }
  request.has_inline_limit = random.one_in(2);
  if (request.has_inline_limit) {
    request.inline_limit = {random.next(), u32(), u32()};
  } else {
    request.policy = u32();
    request.wants_grant = request.op == Op::take && random.one_in(4);
  }
  return request;
}

// A valid reply; `body` keeps its bytes.
inline protocol::Reply random_reply(Random& random, std::vector<std::byte>& body) {
  protocol::Reply reply;
  do {
    reply.op = static_cast<protocol::Op>(random.next());
  } while (reply.op == protocol::Op::hello);
  reply.status = static_cast<protocol::Status>(random.below(protocol::kStatusCount));
  reply.tag = static_cast<std::uint32_t>(random.next());
  reply.granted = static_cast<std::uint32_t>(random.next());
  reply.remaining = static_cast<std::uint32_t>(random.next());
  reply.limit = static_cast<std::uint32_t>(random.next());
  if (random.one_in(2)) reply.layer = static_cast<std::uint8_t>(random.below(protocol::kMaxLayers));
  reply.info = static_cast<std::uint8_t>(random.below(8));
  reply.policy_version = static_cast<std::uint16_t>(random.next());
  reply.wait_ns = random.next();
  reply.reset_ns = random.next();
  body =
      random_bytes(random, random.one_in(2) ? random.below(protocol::kMaxErrorTextBytes + 1) : 0);
  reply.body = body;
  return reply;
}

}  // namespace pail::test
