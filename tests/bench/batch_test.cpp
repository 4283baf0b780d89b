// Concern: a wrong reply never passes for a right one, however the stream is cut. Method: good
// streams cut at every byte; each way of being wrong, one by one, in whole and in cut streams.
#include "bench/batch.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

namespace pail::bench {
namespace {

using protocol::Op;
using protocol::Reply;
using protocol::Status;
using Stream = std::vector<std::byte>;

void append(Stream& stream, const Reply& reply) {
  std::array<std::byte, 512> bytes;
  const std::size_t size = protocol::encode(reply, bytes);
  stream.insert(stream.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

Reply reply_to(std::uint32_t tag, Status status = Status::ok) {
  Reply reply;
  reply.op = Op::take;
  reply.status = status;
  reply.tag = tag;
  static constexpr std::string_view kText = "no such policy";
  if (!protocol::is_decision(status)) reply.body = std::as_bytes(std::span(kText));
  return reply;
}

// Admitted, refused, an error with a text, and so on.
Stream mixed_stream() {
  Stream stream;
  append(stream, reply_to(1));
  append(stream, reply_to(2, Status::denied));
  append(stream, reply_to(3, Status::unknown_policy));
  append(stream, reply_to(4));
  append(stream, reply_to(5, Status::never));
  return stream;
}

bool passes(const Stream& stream, std::uint32_t expected) {
  ReplyChecker checker(1);
  StatusCounts counts;
  return checker.check(stream, expected, counts) == expected;
}

LoadOptions some_options() {
  LoadOptions options;
  options.limit = {1'000'000'000, 10, 20};
  options.cost = 3;
  return options;
}

TEST_CASE("a filled frame is the request that was asked for") {
  LoadOptions options = some_options();
  const auto filled = [](const FrameTemplate& frame) {
    Stream bytes(frame.bytes().begin(), frame.bytes().end());
    frame.fill(bytes.data(), 77, 0xBEEF);
    return bytes;
  };
  const auto text = [](protocol::Bytes key) {
    return std::string(reinterpret_cast<const char*>(key.data()), key.size());
  };
  SUBCASE("inline limit") {
    const Stream bytes = filled(FrameTemplate(options));
    CHECK(bytes.size() == 56);
    const auto request = protocol::decode_request(bytes);
    REQUIRE(request);
    CHECK(request->op == Op::take);
    CHECK(request->tag == 77);
    CHECK(request->cost == 3);
    CHECK(request->inline_limit == options.limit);
    CHECK(text(request->key) == "pail-key0000beef");
  }
  SUBCASE("policy, short key") {
    options.policy = "api";
    options.key_size_bytes = 3;
    const Stream bytes = filled(FrameTemplate(options));
    const auto request = protocol::decode_request(bytes);
    REQUIRE(request);
    CHECK_FALSE(request->has_inline_limit);
    CHECK(request->policy == protocol::policy_id("api"));
    CHECK(text(request->key) == "eef");
  }
  SUBCASE("layers among takes: each frame is whole, whatever was there before") {
    options.policy = "api";
    options.layers = {"organization", "endpoint"};
    options.mix = *parse_mix("take:50,layers:50");
    const FrameTemplate frame(options);
    Stream bytes(frame.size_bytes() * 2, std::byte{0xEE});
    std::array<int, 2> seen{};
    for (std::uint32_t tag = 1; tag <= 100; ++tag) {
      const std::size_t size = frame.fill(bytes.data(), tag, 0xBEEF);
      REQUIRE(size <= frame.size_bytes());
      const auto request = protocol::decode_request(protocol::Bytes(bytes).first(size));
      REQUIRE(request);
      CHECK(request->tag == tag);
      REQUIRE(request->op == options.mix.op_of(tag));
      ++seen[request->op == Op::take_all];
      if (request->op == Op::take) {
        CHECK(text(request->key) == "pail-key0000beef");
        continue;
      }
      std::array<protocol::Layer, protocol::kMaxLayers> layers;
      REQUIRE(protocol::read_layers(request->key, request->cost, layers) == 3);
      CHECK(request->cost == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(layers[i].policy ==
              protocol::policy_id(std::array{"api", "organization", "endpoint"}[i]));
        CHECK(layers[i].cost == 3);
        CHECK(text(layers[i].key) == "pail-key0000beef");
      }
    }
    CHECK(seen == std::array{50, 50});
  }
}

TEST_CASE("what layers were granted is what each of them gave") {
  const OpMix mix = *parse_mix("layers");
  protocol::Reply reply;
  reply.op = Op::take_all;
  reply.tag = 1;
  reply.granted = 15;
  Stream body(48);
  reply.body = body;
  Stream stream(protocol::kReplyHeaderBytes + body.size());
  stream.resize(protocol::encode(reply, stream));
  ReplyChecker checker(1, mix, 3);
  StatusCounts counts;
  std::vector<Outcome> outcomes;
  CHECK(checker.check(stream, 1, counts, &outcomes) == 1);
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes[0].granted == 5);
}

TEST_CASE("good replies count by status, wherever the stream is cut") {
  const Stream stream = mixed_stream();
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    for (const std::size_t second : {first, (first + stream.size()) / 2, stream.size()}) {
      CAPTURE(first);
      CAPTURE(second);
      ReplyChecker checker(1);
      StatusCounts counts;
      std::uint32_t left = 5;
      const protocol::Bytes all(stream);
      for (const auto part :
           {all.first(first), all.subspan(first, second - first), all.subspan(second)}) {
        const auto replies = checker.check(part, left, counts);
        REQUIRE(replies >= 0);
        left -= static_cast<std::uint32_t>(replies);
      }
      REQUIRE(left == 0);
      REQUIRE(counts.admitted() == 2);
      REQUIRE(counts.refused() == 2);
      REQUIRE(counts.errors() == 1);
      REQUIRE(counts.get(Status::unknown_policy) == 1);
      REQUIRE(counts.answered() == 5);
    }
  }
}

TEST_CASE("tags go from the last one to 1, for 0 is the server's own") {
  Stream stream;
  for (const std::uint32_t tag : {0xFFFFFFFEu, 0xFFFFFFFFu, 1u, 2u}) append(stream, reply_to(tag));
  ReplyChecker checker(0xFFFFFFFE);
  StatusCounts counts;
  CHECK(checker.check(stream, 4, counts) == 4);
}

TEST_CASE("every way of being wrong is seen") {
  Stream stream;
  SUBCASE("order") {
    append(stream, reply_to(2));
    append(stream, reply_to(1));
  }
  SUBCASE("a doubled reply") {
    append(stream, reply_to(1));
    append(stream, reply_to(1));
  }
  SUBCASE("a lost reply") {
    append(stream, reply_to(1));
    append(stream, reply_to(3));
  }
  SUBCASE("another operation") {
    Reply reply = reply_to(1);
    reply.op = Op::peek;
    append(stream, reply);
    append(stream, reply_to(2));
  }
  SUBCASE("an unknown status") {
    append(stream, reply_to(1));
    append(stream, reply_to(2));
    stream[3] = std::byte{protocol::kStatusCount};
  }
  SUBCASE("a decision with a body") {
    append(stream, reply_to(1, Status::unknown_policy));
    stream[3] = std::byte{0};
    append(stream, reply_to(2));
  }
  SUBCASE("a size below a header") {
    append(stream, reply_to(1));
    append(stream, reply_to(2));
    stream[0] = std::byte{39};
  }
  SUBCASE("a size above the largest reply") {
    append(stream, reply_to(1));
    append(stream, reply_to(2));
    stream[1] = std::byte{0x40};
  }
  SUBCASE("a size of 0") {
    append(stream, reply_to(1));
    append(stream, reply_to(2));
    stream[0] = std::byte{0};
  }
  CHECK_FALSE(passes(stream, 2));
  // The same, one byte at a time.
  ReplyChecker checker(1);
  StatusCounts counts;
  std::int64_t done = 0;
  for (const std::byte& byte : stream) {
    const auto replies =
        checker.check(protocol::Bytes(&byte, 1), static_cast<std::uint32_t>(2 - done), counts);
    if (replies < 0) {
      CHECK(checker.fault().find("a reply ") == 0);
      return;
    }
    done += replies;
  }
  FAIL("the wrong stream passed when cut");
}

TEST_CASE("bytes that nobody asked for are wrong") {
  Stream stream;
  append(stream, reply_to(1));
  append(stream, reply_to(2));
  CHECK(passes(stream, 2));
  CHECK_FALSE(passes(stream, 1));
  stream.resize(stream.size() - 39);
  CHECK_FALSE(passes(stream, 1));
}

}  // namespace
}  // namespace pail::bench
