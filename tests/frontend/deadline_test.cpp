// Concern: a request that would be answered too late, or that there is no time to decide, charges
// nothing and says so. Method: the front end at invented times, around the wrap of the 32-bit
// deadline included.
#include <doctest/doctest.h>

#include <vector>

#include "server/frontend/native.hpp"
#include "tests/support/raw_client.hpp"

namespace pail::frontend {
namespace {

using protocol::Op;
using protocol::Status;
using test::joined;
using test::Octets;
using test::request_bytes;

constexpr std::uint32_t kBurst = 1'000;

class Fixture {
 public:
  Fixture()
      : memory_(64 * ReplyBlock::kSizeBytes),
        carry_(protocol::kMaxFrameBytes),
        engine_(options()),
        worker_(engine_.enroll()),
        pool_(memory_),
        native_(*worker_, pool_, counters_, Identity{}),
        session_(carry_) {
    REQUIRE(native_.receive(session_, test::hello_bytes(), Now{}, replies_) == Outcome::keep);
    replies_.clear(pool_);
  }
  ~Fixture() { replies_.clear(pool_); }

  std::vector<protocol::Reply> ask(const Octets& requests, Now now,
                                   Service service = Service::normal) {
    now.ticks = 1;
    CHECK(native_.receive(session_, requests, now, replies_, service) == Outcome::keep);
    std::vector<protocol::Reply> replies;
    const auto bytes = replies_.front();
    for (std::size_t at = 0; at < bytes.size(); at += protocol::kReplyHeaderBytes) {
      const auto reply = protocol::decode_reply(bytes.subspan(at, protocol::kReplyHeaderBytes));
      REQUIRE(reply);
      replies.push_back(*reply);
    }
    replies_.clear(pool_);
    return replies;
  }
  Status take(std::uint32_t expires_us, Now now, Service service = Service::normal) {
    protocol::Request request = test::slow_take(1, "key", kBurst);
    request.expires_us = expires_us;
    return ask(request_bytes(request), now, service).at(0).status;
  }
  std::uint32_t charged() {
    protocol::Request peek = test::slow_take(1, "key", kBurst);
    peek.op = Op::peek;
    peek.cost = 0;
    return kBurst - ask(request_bytes(peek), Now{}).at(0).remaining;
  }
  std::uint64_t count(Status status) const { return counters_.read(count_of(status)); }

 private:
  static engine::Options options() {
    engine::Options options;
    return options;
  }
  std::vector<std::byte> memory_;
  std::vector<std::byte> carry_;
  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  ReplyPool pool_;
  NativeCounters counters_;
  Native native_;
  NativeSession session_;
  ReplyQueue replies_;
};

TEST_CASE("a deadline is passed one microsecond after it, on both sides of the wrap") {
  for (const std::uint64_t base : {std::uint64_t{1'000'000}, (std::uint64_t{1} << 32) - 2,
                                   (std::uint64_t{1} << 32) + 1, (std::uint64_t{7} << 32) - 1}) {
    CAPTURE(base);
    Fixture fixture;
    const auto deadline = static_cast<std::uint32_t>(base);
    if (deadline == 0) continue;  // says "none"
    CHECK(fixture.take(deadline, {.us = base - 1}) == Status::ok);
    CHECK(fixture.take(deadline, {.us = base}) == Status::ok);
    CHECK(fixture.take(deadline, {.us = base + 1}) == Status::expired);
    CHECK(fixture.take(deadline, {.us = base + 60'000'000}) == Status::expired);
    CHECK(fixture.take(deadline, {.us = base - 600'000}) == Status::ok);
    CHECK(fixture.take(0, {.us = base + 60'000'000}) == Status::ok);
    CHECK(fixture.charged() == 4);
    CHECK(fixture.count(Status::expired) == 2);
  }
}

// 2^31 us behind a deadline lies what would be ahead of it: a turn that long after is no excuse.
TEST_CASE("long past is past, for every operation, and does nothing") {
  constexpr std::uint64_t kBase = 5'000'000'000;
  for (const Op op : {Op::take, Op::peek, Op::take_all, Op::settle, Op::acquire, Op::renew,
                      Op::release, Op::reset, Op::stats}) {
    for (const bool wants_grant : {false, true}) {
      if (wants_grant && op != Op::take) continue;
      CAPTURE(static_cast<int>(op));
      Fixture fixture;
      CHECK(fixture.take(0, {.us = kBase}) == Status::ok);
      protocol::Request request = test::slow_take(1, "key", kBurst);
      request.op = op;
      request.wants_grant = wants_grant;
      if (op == Op::stats) {
        request = protocol::Request{};
        request.op = op;
        request.tag = 1;
      }
      Octets layers(protocol::kMaxLayersBytes);
      if (op != Op::take && op != Op::peek && op != Op::reset && op != Op::stats) {
        request.has_inline_limit = false;
        request.policy = 77;
      }
      if (op == Op::reset) request.cost = 0;
      if (wants_grant) request.has_inline_limit = false, request.policy = 77;
      if (op == Op::take_all) {
        const protocol::Layer layer{77, 1, request.key};
        layers.resize(protocol::encode(std::span(&layer, 1), protocol::Buffer(layers)));
        request.policy = 0;
        request.cost = 1;
        request.key = layers;
      }
      request.expires_us = static_cast<std::uint32_t>(kBase - 0x7FFF'FFFF);
      const auto replies = fixture.ask(request_bytes(request), {.us = kBase, .turn_us = 1'000});
      REQUIRE(replies.size() == 1);
      CHECK(replies[0].status == Status::expired);
      CHECK(replies[0].op == op);
      CHECK(fixture.charged() == 1);
    }
  }
}

TEST_CASE("what cannot be answered in time is answered overloaded, and charges nothing") {
  for (const std::uint64_t base : {std::uint64_t{1'000'000}, (std::uint64_t{1} << 32) - 50}) {
    Fixture fixture;
    const auto deadline = static_cast<std::uint32_t>(base + 100);
    CHECK(fixture.take(deadline, {.us = base, .turn_us = 100}) == Status::ok);
    CHECK(fixture.take(deadline, {.us = base, .turn_us = 101}) == Status::overloaded);
    CHECK(fixture.take(deadline, {.us = base + 101, .turn_us = 101}) == Status::expired);
    CHECK(fixture.take(0, {.us = base, .turn_us = 1'000'000}) == Status::ok);
    CHECK(fixture.charged() == 2);
    CHECK(fixture.count(Status::overloaded) == 1);
  }
}

TEST_CASE("a connection that is shed gets an answer to everything, in order, and decides nothing") {
  Fixture fixture;
  Octets stream;
  for (std::uint32_t tag = 1; tag <= 40; ++tag) {
    protocol::Request request = test::slow_take(tag, "key", kBurst);
    if (tag % 4 == 0) {
      request = protocol::Request{};
      request.op = Op::ping;
      request.tag = tag;
    }
    stream = joined(std::move(stream), request_bytes(request));
  }
  const auto replies = fixture.ask(stream, Now{}, Service::shedding);
  REQUIRE(replies.size() == 40);
  for (std::uint32_t tag = 1; tag <= 40; ++tag) {
    CHECK(replies[tag - 1].tag == tag);
    CHECK(replies[tag - 1].status == (tag % 4 == 0 ? Status::ok : Status::overloaded));
  }
  CHECK(fixture.charged() == 0);
  CHECK(fixture.take(0, Now{}) == Status::ok);
}

}  // namespace
}  // namespace pail::frontend
