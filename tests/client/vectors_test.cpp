// The golden vectors of the protocol, read by the client's side: every reply frame, right or wrong,
// is served to a real Client as the answer to its request, and what the caller gets must follow
// from the vector; and every request that the public interface can make must be, byte for byte, the
// vector's.
#include <doctest/doctest.h>

#include <cstring>
#include <pail/client.hpp>
#include <pail/limit.hpp>
#include <string>
#include <vector>

#include "protocol/limit_text.hpp"
#include "tests/client/fixture.hpp"
#include "tests/support/vectors.hpp"

using namespace pail::test;
using pail::ErrorCode;
using pail::protocol::Op;
using pail::protocol::Status;

namespace {

Op op_of(const std::vector<std::byte>& frame) {
  return static_cast<Op>(frame.at(2));
}

// The tag is the client's to choose: the frame gets it, all else is the vector's.
std::vector<std::byte> with_tag(std::vector<std::byte> frame, std::uint32_t tag) {
  if (frame.size() >= 8) std::memcpy(frame.data() + 4, &tag, sizeof tag);
  return frame;
}

pail::Result<pail::Decision> call(pail::Client& client, Op op, const pail::CallOptions& options) {
  if (op == Op::peek) return client.peek(kLimit, "k", options);
  if (op == Op::reset) {
    return client.reset(kLimit, "k", options).map([] { return pail::Decision{}; });
  }
  if (op == Op::ping) return client.ping(options).map([](auto) { return pail::Decision{}; });
  return client.take(kLimit, "k", options);
}

void check_decision(const pail::Decision& decision, const pail::protocol::Reply& reply) {
  CHECK(decision.granted == reply.granted);
  CHECK(decision.remaining == reply.remaining);
  CHECK(decision.limit == reply.limit);
  const bool fits = reply.wait_ns <= static_cast<std::uint64_t>(INT64_MAX);
  const auto wait = fits ? std::chrono::nanoseconds(static_cast<std::int64_t>(reply.wait_ns))
                         : std::chrono::nanoseconds::max();
  if (reply.status == Status::ok) {
    CHECK(decision.admitted());
    CHECK(decision.hold == wait);
  } else {
    CHECK_FALSE(decision.admitted());
    CHECK(decision.retry_after ==
          (reply.status == Status::never ? pail::Decision::kForever : wait));
  }
}

}  // namespace

TEST_CASE("vectors: the client takes every reply as it is meant") {
  std::size_t decisions = 0;
  std::size_t errors = 0;
  std::size_t fatal = 0;
  for (const Vector& vector : load_vectors("replies.txt")) {
    if (vector.message != "reply" || vector.bytes.size() < 4) continue;
    // In a stream the size field alone ends a frame: a smaller one makes another, right frame.
    if (pail::protocol::wire::load<std::uint16_t>(vector.bytes.data()) < vector.bytes.size())
      continue;
    CAPTURE(vector.where);
    CAPTURE(vector.name);
    const Op op = op_of(vector.bytes);
    const bool is_ours = op == Op::ping || op == Op::take || op == Op::peek || op == Op::reset;
    const bool is_notice = vector.is_valid() && vector.number("tag") == 0;
    if (vector.is_valid() && !is_ours && !is_notice) continue;  // of operations to come

    StubServer server([&](Peer& peer) {
      if (!peer.greet()) return;
      while (const auto request = peer.next()) {
        peer.send(with_tag(vector.bytes, is_notice ? 0 : request->tag));
        if (is_notice) peer.send(admitted(*request));
        if (!vector.is_valid()) peer.hang_up();
      }
    });
    auto client = pail::Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    const auto result = call(*client, is_ours ? op : Op::take, {});

    if (!vector.is_valid()) {
      ++fatal;
      REQUIRE_FALSE(result.has_value());
      const ErrorCode code = result.error().code;
      CHECK((code == ErrorCode::protocol_error || code == ErrorCode::closed));
      CHECK_FALSE(client->usable());
      continue;
    }
    const ReplyVector expected(vector);
    if (is_notice) {
      const bool ends = op == Op::goaway && expected.reply.status != Status::ok;
      CHECK(result.has_value() == !ends);
      CHECK(client->usable() == !ends);  // after a goodbye by the connection of the next call
    } else if (pail::protocol::is_decision(expected.reply.status)) {
      ++decisions;
      // PING and RESET have no answer but ok.
      if (op == Op::take || op == Op::peek) {
        REQUIRE(result.has_value());
        check_decision(*result, expected.reply);
      }
    } else {
      ++errors;
      REQUIRE_FALSE(result.has_value());
      CHECK_FALSE(result.error().maybe_charged);
      CHECK(client->usable());
    }
  }
  CHECK(decisions >= 5);
  CHECK(errors >= 5);
  CHECK(fatal >= 5);
}

TEST_CASE("vectors: what the client sends is what the vectors say") {
  std::size_t checked = 0;
  for (const Vector& vector : load_vectors("requests.txt")) {
    if (vector.message != "request" || !vector.is_valid()) continue;
    const RequestVector expected(vector);
    // What the public interface cannot say: a policy by its number, a PEEK of nothing.
    if (expected.request.op != Op::ping && !expected.request.has_inline_limit) continue;
    const auto& limit = expected.request.inline_limit;
    if (limit.period_ns > pail::protocol::kMaxPeriodNs || limit.period_ns == 0) continue;
    if (expected.request.op != Op::ping && (limit.count == 0 || limit.burst == 0)) continue;
    CAPTURE(vector.where);
    CAPTURE(vector.name);
    ++checked;

    pail::protocol::Request sent;
    std::string key;
    {
      StubServer server([&](Peer& peer) {
        if (!peer.greet()) return;
        if (auto request = peer.next()) {
          key = request->key_text;
          sent = *request;
          peer.send(admitted(*request));
        }
        peer.wait_for_end();
      });
      auto client = pail::Client::connect(server.address(), patient());
      REQUIRE(client.has_value());
      pail::CallOptions options;
      options.cost = expected.request.cost;
      options.priority = expected.request.priority;
      options.partial = expected.request.partial;
      const auto rate =
          pail::Limit::rate(limit.count, std::chrono::nanoseconds(limit.period_ns), limit.burst);
      const std::string_view wanted = pail::protocol::as_text(expected.key);
      pail::Result<pail::Decision> result = pail::Decision{};
      if (expected.request.op == Op::take) result = client->take(rate, wanted, options);
      if (expected.request.op == Op::peek) result = client->peek(rate, wanted, options);
      if (expected.request.op == Op::reset) {
        result = client->reset(rate, wanted, options).map([] { return pail::Decision{}; });
      }
      if (expected.request.op == Op::ping) {
        result = client->ping(options).map([](auto) { return pail::Decision{}; });
      }
      CHECK(result.has_value());
    }
    sent.key = pail::protocol::as_body(key);
    // Tag and deadline are the connection's own.
    sent.tag = expected.request.tag;
    sent.expires_us = expected.request.expires_us;
    std::vector<std::byte> frame(pail::protocol::kMaxRequestBytes);
    frame.resize(pail::protocol::encode(sent, frame));
    CHECK(frame == vector.bytes);
  }
  CHECK(checked >= 3);
}

TEST_CASE("vectors: a policy's name becomes its id") {
  std::size_t checked = 0;
  for (const Vector& vector : load_vectors("policy_ids.txt")) {
    CAPTURE(vector.where);
    CHECK(pail::Limit::policy(vector.text("policy_name")).policy_id() == vector.number("id"));
    ++checked;
  }
  CHECK(checked >= 3);
}
