// What must hold for any bytes whatever, as functions that throw where it does not: run by the
// fuzzers, which look for such bytes, and by the tests, on random and on golden ones.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/frame_reader.hpp"
#include "tests/support/messages.hpp"

namespace pail::test {

using protocol::Bytes;
using protocol::FrameReader;

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

// All that a stream came to.
struct Cut {
  std::vector<std::vector<std::byte>> frames;
  std::string error;  // described; empty: none
  std::size_t pending_bytes = 0;
  friend bool operator==(const Cut&, const Cut&) = default;
};

// Feeds the stream in chunks whose sizes `next_size` names (0 counts as 1), each in a heap buffer
// of its own, freed as soon as it has been read. The server's side: HELLO is accepted whatever it
// holds.
template <class NextSize>
Cut cut_stream(Bytes stream, FrameReader::Phase phase, NextSize next_size) {
  Cut cut;
  const auto carry = std::make_unique_for_overwrite<std::byte[]>(protocol::kMaxFrameBytes);
  FrameReader reader({carry.get(), protocol::kMaxFrameBytes}, phase);
  bool awaits_hello = phase == FrameReader::Phase::hello;
  while (!stream.empty() && !reader.error()) {
    const std::size_t size = std::min(std::max<std::size_t>(next_size(), 1), stream.size());
    const ExactBytes chunk(stream.first(size));
    stream = stream.subspan(size);
    reader.feed(chunk.bytes());
    // Frames of one chunk are all valid until end_chunk: look at them only then.
    std::vector<Bytes> frames;
    while (const auto frame = reader.next()) {
      frames.push_back(*frame);
      if (awaits_hello) {
        require(!reader.next(), "a second frame before HELLO was accepted");
        reader.accept_hello();
        awaits_hello = false;
      }
    }
    for (const Bytes frame : frames) cut.frames.emplace_back(frame.begin(), frame.end());
    reader.end_chunk();
  }
  if (const auto error = reader.error()) cut.error = describe(*error);
  cut.pending_bytes = reader.pending_bytes();
  require(cut.pending_bytes < protocol::kMaxFrameBytes,
          "the reader holds more than a frame's beginning");
  return cut;
}

// An error is told in a frame that the peer can decode.
inline void check_error_reply(const protocol::DecodeError& error) {
  require(!error.reason.empty(), "an error without a reason");
  require(error.status == protocol::Status::bad_request ||
              error.status == protocol::Status::not_supported,
          "an error with another status: " + describe(error));
  std::vector<std::byte> out(protocol::kMaxErrorReplyBytes);
  out.resize(protocol::encode(error, out));
  if (error.op == protocol::Op::hello) {
    const auto reply = protocol::decode_hello_reply(out);
    require(reply && reply->status == error.status && reply->tag == error.tag &&
                reply->error == error.reason,
            "the HELLO reply of " + describe(error));
  } else {
    const auto reply = protocol::decode_reply(out);
    require(reply && reply->status == error.status && reply->tag == error.tag &&
                reply->op == error.op && protocol::as_text(reply->body) == error.reason,
            "the reply of " + describe(error));
  }
}

template <class Message>
void check_encodes_to(const Message& message, Bytes frame) {
  const auto again = encoded(message);
  require(
      Bytes(again).size() == frame.size() && std::equal(again.begin(), again.end(), frame.begin()),
      "decoded and encoded again it differs: " + to_hex(frame));
}

inline void check_request_frame(Bytes frame) {
  const ExactBytes exact(frame);
  const auto request = protocol::decode_request(exact.bytes());
  const auto slowly = protocol::decode_request_slowly(exact.bytes());
  require(request.has_value() == slowly.has_value(),
          "the short cut decides otherwise: " + to_hex(frame));
  if (request) {
    require(describe(*request) == describe(*slowly),
            "the short cut reads otherwise: " + to_hex(frame));
    check_encodes_to(*request, frame);
  } else {
    require(describe(request.error()) == describe(slowly.error()), "the short cut errs otherwise");
    check_error_reply(request.error());
  }
}

inline void check_hello_frame(Bytes frame) {
  const ExactBytes exact(frame);
  const auto hello = protocol::decode_hello(exact.bytes());
  if (!hello) {
    require(hello.error().fatal && hello.error().op == protocol::Op::hello,
            describe(hello.error()));
    check_error_reply(hello.error());
  } else if (frame[3] == std::byte{3}) {  // no later version's header
    check_encodes_to(*hello, frame);
  }
}

inline void check_reply_frame(Bytes frame) {
  const ExactBytes exact(frame);
  if (const auto reply = protocol::decode_reply(exact.bytes())) {
    check_encodes_to(*reply, frame);
  } else {
    require(reply.error().fatal && !reply.error().reason.empty(), describe(reply.error()));
  }
  if (const auto reply = protocol::decode_hello_reply(exact.bytes())) {
    check_encodes_to(*reply, frame);
  } else {
    require(reply.error().fatal && !reply.error().reason.empty(), describe(reply.error()));
  }
}

// A stream cut in chunks comes to the same as in one piece; its frames go through the decoders.
template <class NextSize, class CheckFrame>
void check_stream(Bytes stream, FrameReader::Phase phase, NextSize next_size,
                  CheckFrame check_frame) {
  const std::size_t all = std::max<std::size_t>(stream.size(), 1);
  const Cut whole = cut_stream(stream, phase, [&] { return all; });
  const Cut chunked = cut_stream(stream, phase, next_size);
  require(whole == chunked, "chunks come to another result than the whole: " + to_hex(stream));
  for (std::size_t i = 0; i < whole.frames.size(); ++i) {
    if (i == 0 && phase == FrameReader::Phase::hello) {
      check_hello_frame(whole.frames[i]);
    } else {
      check_frame(whole.frames[i]);
    }
  }
}

// The first byte chooses the phase, the second seeds the sizes of the chunks; the rest is the
// stream, and also one frame.
inline void check_server_input(Bytes input) {
  if (input.size() < 2) return;
  const auto phase = (input[0] & std::byte{1}) != std::byte{0} ? FrameReader::Phase::hello
                                                               : FrameReader::Phase::open;
  auto state = std::to_integer<std::size_t>(input[1]);
  const auto next_size = [&] {
    state = state * 1'103'515'245 + 12'345;
    return (state >> 16) % ((state & 64) != 0 ? 40 : 4000);
  };
  const Bytes stream = input.subspan(2);
  check_stream(stream, phase, next_size, check_request_frame);
  check_request_frame(stream);
  check_hello_frame(stream);
}

inline void check_client_input(Bytes input) {
  if (input.empty()) return;
  auto state = std::to_integer<std::size_t>(input[0]);
  const auto next_size = [&] {
    state = state * 1'103'515'245 + 12'345;
    return (state >> 16) % 100;
  };
  const Bytes stream = input.subspan(1);
  check_stream(stream, FrameReader::Phase::open, next_size, check_reply_frame);
  check_reply_frame(stream);
}

}  // namespace pail::test
