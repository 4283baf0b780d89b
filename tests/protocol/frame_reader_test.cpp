// The frame reader: a stream comes to the same frames however it is chunked; memory is bounded,
// whole frames are not copied, and what is no HELLO is refused at its first bytes. Chunks live in
// heap buffers of exactly their size that are freed once read, so a reference kept too long is seen
// by the address sanitizer.
#include "protocol/frame_reader.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "tests/fuzz/protocol_harness.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/vectors.hpp"

namespace pail::protocol {
namespace {

using Phase = FrameReader::Phase;
using test::Cut;
using test::cut_stream;
using test::Random;

std::vector<std::byte> frame_of(std::size_t size, unsigned char fill) {
  std::vector<std::byte> frame(size, std::byte{fill});
  wire::store(frame.data(), static_cast<std::uint16_t>(size));
  return frame;
}

void append(std::vector<std::byte>& stream, const std::vector<std::byte>& more) {
  stream.insert(stream.end(), more.begin(), more.end());
}

TEST_CASE("frame reader: the streams among the vectors, at every split and by single bytes") {
  std::size_t count = 0;
  for (const test::Vector& vector : test::load_vectors("streams.txt")) {
    CAPTURE(vector.where);
    CAPTURE(vector.name);
    REQUIRE(vector.message == "stream");
    ++count;
    const Phase phase = vector.text("phase") == "hello" ? Phase::hello : Phase::open;
    const Cut whole = cut_stream(vector.bytes, phase, [&] { return vector.bytes.size(); });
    std::string sizes;
    for (const auto& frame : whole.frames) {
      sizes += (sizes.empty() ? "" : " ") + std::to_string(frame.size());
    }
    CHECK(sizes == vector.text("frames"));
    CHECK(whole.error.empty() == vector.is_valid());
    CAPTURE(whole.error);
    CHECK(whole.error.find(vector.text("says")) != std::string::npos);

    CHECK(cut_stream(vector.bytes, phase, [] { return 1; }) == whole);
    for (std::size_t split = 1; split < vector.bytes.size(); ++split) {
      bool is_first = true;
      const Cut cut = cut_stream(vector.bytes, phase, [&] {
        return std::exchange(is_first, false) ? split : vector.bytes.size();
      });
      if (cut == whole) continue;
      FAIL("another result when split at " << split);
    }
  }
  CHECK(count >= 20);
}

TEST_CASE("frame reader: random streams in random chunks") {
  Random random(20);
  std::vector<std::byte> keep;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> stream;
    std::vector<std::vector<std::byte>> frames;
    for (std::uint64_t n = random.below(40); n > 0; --n) {
      frames.push_back(random.one_in(10)
                           ? frame_of(random.between(kFramePrefixBytes, kMaxFrameBytes), 7)
                           : test::encoded(test::random_request(random, keep)));
      append(stream, frames.back());
    }
    const std::size_t tail = random.below(kFramePrefixBytes);
    const auto beginning = frame_of(1000, 9);
    stream.insert(stream.end(), beginning.begin(),
                  beginning.begin() + static_cast<std::ptrdiff_t>(tail));
    const std::uint64_t largest = random.magnitude(1, 20'000);
    const Cut cut = cut_stream(stream, Phase::open, [&] { return random.between(1, largest); });
    REQUIRE(cut.frames == frames);
    REQUIRE(cut.error.empty());
    REQUIRE(cut.pending_bytes == tail);
  }
}

TEST_CASE("frame reader: random bytes, on either side") {
  Random random(21);
  for (int i = 0; i < 4'000; ++i) {
    auto bytes = test::random_bytes(random, random.below(400));
    // Small sizes, so that more than one frame comes out of it.
    for (std::size_t at = 2; at + 1 < bytes.size(); at += random.between(8, 40)) {
      bytes[at + 1] = std::byte{0};
    }
    REQUIRE_NOTHROW(test::check_server_input(bytes));
    REQUIRE_NOTHROW(test::check_client_input(bytes));
  }
}

TEST_CASE("frame reader: frames that lie whole in the chunk are not copied") {
  std::vector<std::byte> stream = frame_of(24, 1);
  append(stream, frame_of(30, 2));
  append(stream, frame_of(40, 3));
  std::vector<std::byte> carry(kMaxFrameBytes);
  FrameReader reader(carry, Phase::open);

  reader.feed(Bytes(stream).first(24 + 10));
  CHECK(reader.next()->data() == stream.data());
  CHECK_FALSE(reader.next().has_value());
  reader.end_chunk();
  CHECK(reader.pending_bytes() == 10);

  reader.feed(Bytes(stream).subspan(24 + 10));
  const auto begun_earlier = reader.next();
  const auto whole = reader.next();
  REQUIRE(begun_earlier.has_value());
  REQUIRE(whole.has_value());
  CHECK(begun_earlier->data() == carry.data());
  CHECK(begun_earlier->size() == 30);
  CHECK(whole->data() == stream.data() + 24 + 30);
  CHECK_FALSE(reader.next().has_value());
  CHECK((*begun_earlier)[29] == std::byte{2});  // valid until end_chunk, the second frame too
  reader.end_chunk();
  CHECK(reader.pending_bytes() == 0);
}

TEST_CASE("frame reader: a frame from the carry buffer outlives the beginning of the next one") {
  std::vector<std::byte> stream = frame_of(100, 1);
  append(stream, frame_of(100, 2));
  std::vector<std::byte> carry(kMaxFrameBytes);
  FrameReader reader(carry, Phase::open);
  reader.feed(Bytes(stream).first(50));
  CHECK_FALSE(reader.next().has_value());
  reader.end_chunk();
  reader.feed(Bytes(stream).subspan(50, 100));
  const auto first = reader.next();
  REQUIRE(first.has_value());
  CHECK_FALSE(reader.next().has_value());
  CHECK(test::to_hex(*first) == test::to_hex(frame_of(100, 1)));
  reader.end_chunk();
  reader.feed(Bytes(stream).subspan(150));
  const auto second = reader.next();
  REQUIRE(second.has_value());
  CHECK(test::to_hex(*second) == test::to_hex(frame_of(100, 2)));
  reader.end_chunk();
}

TEST_CASE("frame reader: a small carry buffer is the limit of a frame") {
  std::vector<std::byte> carry(2048);
  FrameReader reader(carry, Phase::open);
  const auto fits = frame_of(2048, 1);
  reader.feed(fits);
  CHECK(reader.next().has_value());
  reader.end_chunk();
  const auto too_long = frame_of(2049, 1);
  reader.feed(too_long);
  CHECK_FALSE(reader.next().has_value());
  CHECK(reader.error().has_value());
}

TEST_CASE(
    "frame reader: nothing comes between HELLO and its acceptance, and nothing after an error") {
  std::vector<std::byte> carry(kMaxFrameBytes);
  FrameReader reader(carry, Phase::hello);
  auto stream = test::encoded(Hello{});
  append(stream, frame_of(24, 1));
  append(stream, frame_of(kMaxFrameBytes, 2));
  stream.push_back(std::byte{3});
  stream.push_back(std::byte{0});
  append(stream, frame_of(24, 1));
  reader.feed(stream);
  CHECK(reader.next()->size() == kHelloHeaderBytes);
  CHECK_FALSE(reader.next().has_value());
  CHECK_FALSE(reader.error().has_value());
  reader.accept_hello();
  CHECK(reader.next()->size() == 24);
  CHECK(reader.next()->size() == kMaxFrameBytes);
  CHECK_FALSE(reader.next().has_value());
  REQUIRE(reader.error().has_value());
  CHECK(reader.error()->fatal);
  CHECK(reader.error()->op == Op::goaway);
  CHECK_FALSE(reader.next().has_value());
  reader.end_chunk();
  const auto good = frame_of(24, 1);
  reader.feed(good);
  CHECK_FALSE(reader.next().has_value());
}

TEST_CASE("frame reader: before HELLO an error is told in a HELLO reply") {
  std::vector<std::byte> carry(kMaxFrameBytes);
  FrameReader reader(carry, Phase::hello);
  reader.feed(as_body("GET / HTTP/1.1\r\n"));
  CHECK_FALSE(reader.next().has_value());
  REQUIRE(reader.error().has_value());
  CHECK(reader.error()->op == Op::hello);
  CHECK_NOTHROW(test::check_error_reply(*reader.error()));
}

}  // namespace
}  // namespace pail::protocol
