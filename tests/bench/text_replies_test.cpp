// Concern: answers of rivals are read for what they say, however the stream is cut, and nonsense is
// never counted. Method: streams cut at every byte; wrong ones in whole and cut.
#include "bench/text_replies.hpp"

#include <doctest/doctest.h>

#include <string>

#include "bench/batch.hpp"

namespace pail::bench {
namespace {

LoadOptions options_for(TargetKind kind, RedisMethod method = RedisMethod::lua) {
  LoadOptions options;
  options.target = {kind, method};
  options.limit = {1'000'000'000, 3, 3};
  options.rate_text = "3/s";
  options.script_sha = std::string(40, 'f');
  return options;
}

struct Reading {
  std::int64_t replies = 0;
  StatusCounts counts;
};

// In two chunks, cut at `cut`.
Reading read(const LoadOptions& options, const std::string& stream, std::size_t cut,
             std::uint32_t expected) {
  TextReplies replies(options);
  Reading reading;
  for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
    if (part.empty()) continue;
    const auto open = static_cast<std::uint32_t>(expected - reading.replies);
    const auto count = replies.check(protocol::as_body(part), open, reading.counts, nullptr);
    if (count < 0) return {-1, {}};
    reading.replies += count;
  }
  return reading;
}

void check_at_every_cut(const LoadOptions& options, const std::string& stream,
                        std::uint32_t admitted, std::uint32_t refused, std::uint32_t errors) {
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CAPTURE(cut);
    const std::uint32_t expected = admitted + refused + errors;
    const Reading reading = read(options, stream, cut, expected);
    CHECK(reading.replies == expected);
    CHECK(reading.counts.admitted() == admitted);
    CHECK(reading.counts.refused() == refused);
    CHECK(reading.counts.errors() == errors);
  }
}

TEST_CASE("answers of every kind, cut anywhere") {
  check_at_every_cut(options_for(TargetKind::redis),
                     "*2\r\n:1\r\n:2\r\n*2\r\n:0\r\n:0\r\n-ERR x\r\n", 1, 1, 1);
  check_at_every_cut(options_for(TargetKind::redis, RedisMethod::incr),
                     ":3\r\n:1\r\n:4\r\n:0\r\n-WRONGTYPE\r\n:0\r\n", 1, 1, 1);
  check_at_every_cut(options_for(TargetKind::redis, RedisMethod::throttle),
                     "*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:1\r\n*5\r\n:1\r\n:3\r\n:0\r\n:1\r\n:1\r\n", 1,
                     1, 0);
  check_at_every_cut(options_for(TargetKind::memcached),
                     "3\r\n4\r\nNOT_FOUND\r\nSERVER_ERROR x\r\n", 1, 1, 2);
}

TEST_CASE("nonsense and answers to nothing are faults") {
  const auto redis = options_for(TargetKind::redis);
  const auto memcached = options_for(TargetKind::memcached);
  CHECK(read(redis, "$5\r\nhello\r\n", 0, 1).replies == -1);
  CHECK(read(redis, "*99\r\n", 0, 1).replies == -1);
  CHECK(read(redis, ":x\r\n", 0, 1).replies == -1);
  CHECK(read(redis, "\r\n", 0, 1).replies == -1);
  CHECK(read(redis, ":1\r\n:1\r\n", 0, 1).replies == -1);
  CHECK(read(redis, ":" + std::string(600, '1'), 0, 1).replies == -1);
  CHECK(read(redis, ":" + std::string(600, '1'), 300, 1).replies == -1);
  CHECK(read(memcached, "hello\r\n", 0, 1).replies == -1);
  CHECK(read(memcached, "1\r\n2\r\n", 0, 1).replies == -1);
}

std::string filled(const LoadOptions& options) {
  const FrameTemplate frame(options);
  std::vector<std::byte> bytes(frame.bytes().begin(), frame.bytes().end());
  frame.fill(bytes.data(), 77, 0xBEEF);
  return std::string(protocol::as_text(bytes));
}

TEST_CASE("requests in the words of the rivals") {
  CHECK(filled(options_for(TargetKind::memcached)) == "incr pail-key0000beef 1\r\n");
  CHECK(filled(options_for(TargetKind::redis, RedisMethod::incr)) ==
        "*3\r\n$6\r\nINCRBY\r\n$16\r\npail-key0000beef\r\n$1\r\n1\r\n"
        "*4\r\n$6\r\nEXPIRE\r\n$16\r\npail-key0000beef\r\n$1\r\n1\r\n$2\r\nNX\r\n");
  CHECK(filled(options_for(TargetKind::redis, RedisMethod::throttle)) ==
        "*6\r\n$11\r\nCL.THROTTLE\r\n$16\r\npail-key0000beef\r\n$1\r\n2\r\n$1\r\n3\r\n$1\r\n1\r\n"
        "$1\r\n1\r\n");
  CHECK(filled(options_for(TargetKind::redis)) ==
        "*8\r\n$7\r\nEVALSHA\r\n$40\r\n" + std::string(40, 'f') +
            "\r\n$1\r\n1\r\n$16\r\npail-key0000beef\r\n$1\r\n3\r\n$1\r\n3\r\n$4\r\n1000\r\n$1\r\n1"
            "\r\n");
}

}  // namespace
}  // namespace pail::bench
