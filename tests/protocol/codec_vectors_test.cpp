// The golden vectors both ways: wrong frames are refused as the vector says, right ones decode to
// its fields and encode to its bytes. Every frame is also decoded from a buffer of exactly its
// size.
#include <doctest/doctest.h>

#include <set>

#include "protocol/codec.hpp"
#include "protocol/stats.hpp"
#include "tests/fuzz/protocol_harness.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/vectors.hpp"

namespace pail::protocol {
namespace {

using test::describe;
using test::encoded;
using test::ExactBytes;
using test::Vector;

void check_refused(const Vector& vector, const DecodeError& error) {
  CHECK(error.fatal == vector.is_fatal());
  CHECK(name(error.status) == vector.text("answer"));
  CAPTURE(error.reason);
  CHECK(vector.has("says"));
  CHECK(error.reason.find(vector.text("says")) != std::string_view::npos);
}

template <class Message, class Expected>
void check_vector(const Vector& vector, const Decoded<Message>& decoded, const Expected& expected) {
  if (!vector.is_valid()) {
    REQUIRE_FALSE(decoded.has_value());
    check_refused(vector, decoded.error());
    return;
  }
  if (!decoded) FAIL(describe(decoded.error()));
  CHECK(describe(*decoded) == describe(expected));
  if (vector.text("encodes") != "no") {
    CHECK(test::to_hex(encoded(expected)) == test::to_hex(vector.bytes));
  }
}

void check_every(const char* file, const char* message, std::size_t at_least,
                 void (*check)(const Vector&, Bytes)) {
  std::size_t count = 0;
  for (const Vector& vector : test::load_vectors(file)) {
    if (vector.message != message) continue;
    ++count;
    CAPTURE(vector.where);
    CAPTURE(vector.name);
    const ExactBytes frame(vector.bytes);
    check(vector, frame.bytes());
  }
  CHECK(count >= at_least);
}

TEST_CASE("vectors: requests") {
  check_every("requests.txt", "request", 60, [](const Vector& vector, Bytes frame) {
    const test::RequestVector expected(vector);
    check_vector(vector, decode_request(frame), expected.request);
    check_vector(vector, decode_request_slowly(frame), expected.request);
    CHECK_NOTHROW(test::check_request_frame(frame));
  });
}

TEST_CASE("vectors: the answer to a refused request names it") {
  for (const Vector& vector : test::load_vectors("requests.txt")) {
    if (vector.text("error") != "request") continue;
    CAPTURE(vector.where);
    const auto decoded = decode_request(vector.bytes);
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().op == static_cast<Op>(vector.bytes[2]));
    CHECK(decoded.error().tag == wire::load<std::uint32_t>(vector.bytes.data() + 4));
  }
}

TEST_CASE("vectors: replies") {
  check_every("replies.txt", "reply", 30, [](const Vector& vector, Bytes frame) {
    const test::ReplyVector expected(vector);
    check_vector(vector, decode_reply(frame), expected.reply);
    CHECK_NOTHROW(test::check_reply_frame(frame));
  });
}

TEST_CASE("vectors: HELLO") {
  check_every("hello.txt", "hello", 25, [](const Vector& vector, Bytes frame) {
    const auto token = test::parse_hex(vector.text("token"));
    const auto client_name = test::parse_hex(vector.text("client_name"));
    Hello expected;
    expected.tag = vector.as<std::uint32_t>("tag");
    expected.min_version = vector.as<std::uint16_t>("min_version");
    expected.max_version = vector.as<std::uint16_t>("max_version");
    expected.features = vector.as<std::uint32_t>("features");
    expected.token = as_text(token);
    expected.client_name = as_text(client_name);
    check_vector(vector, decode_hello(frame), expected);
    CHECK_NOTHROW(test::check_hello_frame(frame));
  });
}

TEST_CASE("vectors: HELLO's reply") {
  check_every("hello.txt", "hello_reply", 12, [](const Vector& vector, Bytes frame) {
    const auto error = test::parse_hex(vector.text("error_text"));
    HelloReply expected;
    expected.status = static_cast<Status>(vector.as<std::uint8_t>("status"));
    expected.tag = vector.as<std::uint32_t>("tag");
    expected.version = vector.as<std::uint16_t>("version");
    expected.features = vector.as<std::uint32_t>("features");
    expected.boot_id = vector.number("boot_id");
    expected.clock_us = vector.number("clock_us");
    expected.max_frame_bytes = vector.as<std::uint32_t>("max_frame_bytes");
    expected.max_key_bytes = vector.as<std::uint32_t>("max_key_bytes");
    expected.configuration_version = vector.as<std::uint32_t>("configuration_version");
    expected.error = as_text(error);
    check_vector(vector, decode_hello_reply(frame), expected);
    CHECK_NOTHROW(test::check_reply_frame(frame));
  });
}

// The numbers of a body as the vectors write them; nothing where it is malformed.
std::optional<std::string> stats_text(Bytes body) {
  std::string text;
  while (!body.empty()) {
    const auto stat = take_stat(body);
    if (!stat) return std::nullopt;
    text += (text.empty() ? "" : ", ") + std::to_string(static_cast<unsigned>(stat->kind)) + " " +
            std::string(stat->name) + " " + std::to_string(stat->value);
  }
  return text;
}

TEST_CASE("vectors: the body of STATS") {
  check_every("stats.txt", "stats", 11, [](const Vector& vector, Bytes body) {
    const auto text = stats_text(body);
    CHECK(text.has_value() == vector.is_valid());
    if (!text) return;
    CHECK(*text == vector.text("stats"));
    std::vector<std::byte> again;
    for (Bytes rest = body; !rest.empty();) {
      std::array<std::byte, kMaxStatBytes> out;
      const std::size_t size = encode(*take_stat(rest), out);
      again.insert(again.end(), out.begin(), out.begin() + size);
    }
    CHECK(test::to_hex(again) == test::to_hex(vector.bytes));
  });
}

TEST_CASE("vectors: policy ids") {
  std::size_t count = 0;
  std::set<std::uint32_t> ids;
  for (const Vector& vector : test::load_vectors("policy_ids.txt")) {
    CAPTURE(vector.where);
    REQUIRE(vector.message == "policy_id");
    CHECK(policy_id(vector.text("policy_name")) == vector.number("id"));
    ids.insert(policy_id(vector.text("policy_name")));
    ++count;
  }
  CHECK(count >= 12);
  CHECK(ids.size() == count);
  CHECK(ids.count(0) == 0);
}

}  // namespace
}  // namespace pail::protocol
