// The codec beyond the vectors: any message survives encode and decode, no bytes crash or overrun a
// decoder, the short cut of the request path agrees with the rules on every frame, and the small
// rules of messages.hpp hold.
#include "protocol/codec.hpp"

#include <doctest/doctest.h>

#include "tests/fuzz/protocol_harness.hpp"
#include "tests/support/messages.hpp"

namespace pail::protocol {
namespace {

using test::describe;
using test::encoded;
using test::Random;

TEST_CASE("codec: random requests survive") {
  Random random(10);
  std::vector<std::byte> key;
  for (int i = 0; i < 20'000; ++i) {
    const Request request = test::random_request(random, key);
    const auto frame = encoded(request);
    REQUIRE(frame.size() <= kMaxRequestBytes);
    const auto decoded = decode_request(frame);
    REQUIRE(decoded.has_value());
    REQUIRE(describe(*decoded) == describe(request));
  }
}

TEST_CASE("codec: random replies survive") {
  Random random(11);
  std::vector<std::byte> body;
  for (int i = 0; i < 20'000; ++i) {
    const Reply reply = test::random_reply(random, body);
    const auto frame = encoded(reply);
    const auto decoded = decode_reply(frame);
    REQUIRE(decoded.has_value());
    REQUIRE(describe(*decoded) == describe(reply));
  }
}

TEST_CASE("codec: random HELLOs and their replies survive") {
  Random random(12);
  for (int i = 0; i < 20'000; ++i) {
    const auto token = test::random_bytes(random, random.below(kMaxTokenBytes + 1));
    std::string client_name(random.below(kMaxClientNameBytes + 1), ' ');
    for (char& c : client_name) c = static_cast<char>(random.between(0x20, 0x7E));
    Hello hello;
    hello.tag = static_cast<std::uint32_t>(random.next());
    hello.min_version = static_cast<std::uint16_t>(random.between(1, UINT16_MAX));
    hello.max_version = static_cast<std::uint16_t>(random.between(hello.min_version, UINT16_MAX));
    hello.features = static_cast<std::uint32_t>(random.next());
    hello.token = as_text(token);
    hello.client_name = client_name;
    const auto frame = encoded(hello);
    const auto decoded = decode_hello(frame);
    REQUIRE(decoded.has_value());
    REQUIRE(describe(*decoded) == describe(hello));

    HelloReply reply;
    reply.status = static_cast<Status>(random.below(kStatusCount));
    reply.tag = hello.tag;
    reply.boot_id = random.next();
    reply.clock_us = random.next();
    reply.max_frame_bytes = static_cast<std::uint32_t>(random.next());
    if (reply.status != Status::ok) reply.error = client_name;
    const auto reply_frame = encoded(reply);
    const auto reply_decoded = decode_hello_reply(reply_frame);
    REQUIRE(reply_decoded.has_value());
    REQUIRE(describe(*reply_decoded) == describe(reply));
  }
}

TEST_CASE("codec: random bytes neither crash nor overrun a decoder") {
  Random random(13);
  for (int i = 0; i < 30'000; ++i) {
    auto bytes = test::random_bytes(random, random.below(random.one_in(16) ? 3000 : 64));
    // Half of them with a size field that fits and an operation that exists, to get past the first
    // rules.
    if (bytes.size() >= 4 && random.one_in(2)) {
      wire::store(bytes.data(), static_cast<std::uint16_t>(bytes.size()));
      bytes[2] = static_cast<std::byte>(random.one_in(8) ? 0x7F : random.below(16));
    }
    REQUIRE_NOTHROW(test::check_request_frame(bytes));
    REQUIRE_NOTHROW(test::check_hello_frame(bytes));
    REQUIRE_NOTHROW(test::check_reply_frame(bytes));
  }
}

TEST_CASE("codec: valid frames with some bits turned") {
  Random random(14);
  std::vector<std::byte> keep;
  std::size_t still_valid = 0;
  constexpr std::size_t kRounds = 30'000;
  for (std::size_t i = 0; i < kRounds; ++i) {
    auto frame = encoded(test::random_request(random, keep));
    // Most in the header, where the rules are.
    for (std::uint64_t n = random.between(1, 3); n > 0; --n) {
      const std::size_t end =
          random.one_in(4) ? frame.size() : std::min<std::size_t>(frame.size(), 24);
      frame[random.below(end)] ^= static_cast<std::byte>(1u << random.below(8));
    }
    REQUIRE_NOTHROW(test::check_request_frame(frame));
    if (decode_request(frame)) ++still_valid;

    auto reply = encoded(test::random_reply(random, keep));
    reply[random.below(reply.size())] ^= static_cast<std::byte>(1u << random.below(8));
    REQUIRE_NOTHROW(test::check_reply_frame(reply));
  }
  // Both verdicts occur in numbers, else this compares nothing.
  CHECK(still_valid > kRounds / 20);
  CHECK(still_valid < kRounds * 19 / 20);
}

TEST_CASE("codec: every prefix of a frame is refused, and none is overrun") {
  Random random(15);
  std::vector<std::byte> keep;
  for (int i = 0; i < 200; ++i) {
    const auto frame = encoded(test::random_request(random, keep));
    for (std::size_t size = 0; size < frame.size(); ++size) {
      const test::ExactBytes prefix(Bytes(frame).first(size));
      REQUIRE_FALSE(decode_request(prefix.bytes()).has_value());
    }
  }
}

TEST_CASE("codec: encoding at any alignment, into exactly the room it needs") {
  Random random(16);
  std::vector<std::byte> keep;
  for (std::size_t offset = 0; offset < 8; ++offset) {
    const Request request = test::random_request(random, keep);
    const auto frame = encoded(request);
    std::vector<std::byte> out(offset + frame.size());
    CHECK(encode(request, Buffer(out).subspan(offset)) == frame.size());
    CHECK(test::to_hex(Bytes(out).subspan(offset)) == test::to_hex(frame));
    const auto decoded = decode_request(Bytes(out).subspan(offset));
    REQUIRE(decoded.has_value());
    CHECK(describe(*decoded) == describe(request));
  }
}

TEST_CASE("codec: a decoded key borrows from the frame") {
  std::vector<std::byte> key{std::byte{'k'}};
  Request request;
  request.op = Op::take;
  request.tag = 1;
  request.policy = 1;
  request.cost = 1;
  request.key = key;
  const auto frame = encoded(request);
  const auto decoded = decode_request(frame);
  REQUIRE(decoded.has_value());
  CHECK(decoded->key.data() == frame.data() + kRequestHeaderBytes);
}

TEST_CASE("codec: an error text that is too long is cut") {
  const std::string text(kMaxErrorTextBytes + 100, 'x');
  Reply reply;
  reply.status = Status::bad_request;
  reply.body = as_body(text);
  CHECK(encoded(reply).size() == kReplyHeaderBytes + kMaxErrorTextBytes);
  HelloReply hello_reply;
  hello_reply.status = Status::unauthorized;
  hello_reply.error = text;
  CHECK(encoded(hello_reply).size() == kHelloReplyHeaderBytes + kMaxErrorTextBytes);
}

TEST_CASE("messages: names") {
  CHECK(name(Op::give_back) == "return");
  CHECK(name(Op::hello) == "hello");
  CHECK(name(static_cast<Op>(0x55)) == "unknown");
  CHECK(name(Status::table_full) == "table_full");
  CHECK(name(static_cast<Status>(kStatusCount - 1)) == "not_supported");
  CHECK(name(static_cast<Status>(kStatusCount)) == "unknown");
}

TEST_CASE("messages: version negotiation") {
  const auto negotiated = [](std::uint16_t min, std::uint16_t max) {
    Hello hello;
    hello.min_version = min;
    hello.max_version = max;
    return negotiate_version(hello);
  };
  CHECK(negotiated(1, 1) == 1);
  CHECK(negotiated(1, 65535) == 1);
  CHECK(negotiated(2, 3) == 0);
}

TEST_CASE("messages: deadlines, around the wrap of the clock") {
  CHECK_FALSE(has_expired(0, 0));
  CHECK_FALSE(has_expired(0, 12345));  // none
  for (const std::uint32_t deadline : {1u, 1000u, 0x7FFF'FFFFu, 0x8000'0000u, 0xFFFF'FFFFu}) {
    CAPTURE(deadline);
    CHECK_FALSE(has_expired(deadline, deadline - 1));
    CHECK_FALSE(has_expired(deadline, deadline));
    CHECK(has_expired(deadline, deadline + 1));
    CHECK(has_expired(deadline, deadline + 0x7FFF'FFFFu));
    CHECK_FALSE(has_expired(deadline, deadline + 0x8000'0000u));  // 35 minutes ahead
  }
}

}  // namespace
}  // namespace pail::protocol
