// Concern: from the bytes of a stream to the bytes of the replies, however the stream is cut.
// Method: the front end on a live engine with a frozen clock and no socket.
#include "server/frontend/native.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/random.hpp"

namespace pail::frontend {
namespace {

using protocol::Op;
using protocol::Status;
using Octets = std::vector<std::byte>;

constexpr Now kNow{engine::ticks_from_ns(5'000'000'000), 5'000'000};
constexpr std::uint64_t kDayNs = std::uint64_t{24} * 3600 * 1'000'000'000;

class Fixture {
 public:
  // As many grants as one connection may have: there is only one, and the sanitizers mark all of a
  // server's own ledger anew for each fixture.
  explicit Fixture(const Services& services = {.most_grants = GrantLedger::kMaxGrants})
      : memory_(64 * ReplyBlock::kSizeBytes),
        carry_(protocol::kMaxFrameBytes),
        engine_(options()),
        worker_(engine_.enroll()),
        pool_(memory_),
        native_(*worker_, pool_, counters_, Identity{.boot_id = 77, .configuration_version = 5},
                services),
        session_(carry_) {}
  ~Fixture() { replies_.clear(pool_); }

  // Each chunk in memory of its own, gone afterwards: what is kept must have been copied.
  Outcome receive(protocol::Bytes bytes) {
    const Octets chunk(bytes.begin(), bytes.end());
    return native_.receive(session_, chunk, kNow, replies_);
  }
  Octets take_replies() {
    Octets bytes;
    while (!replies_.front().empty()) {
      const auto front = replies_.front();
      bytes.insert(bytes.end(), front.begin(), front.end());
      replies_.sent(front.size(), pool_);
    }
    return bytes;
  }
  std::uint64_t count(NativeCount name) const { return counters_.read(name); }
  std::uint64_t count(Status status) const { return counters_.read(count_of(status)); }
  ReplyPool& pool() { return pool_; }
  const NativeSession& session() const { return session_; }

 private:
  static engine::Options options() {
    engine::Options options;
    engine::PolicySpec leased{"leased", protocol::policy_id("leased"), {kDayNs, 1, 100}};
    leased.lease = {1'000'000'000, 50, 5};
    options.policies = {{"partner", protocol::policy_id("partner"), {kDayNs, 1, 3}}, leased};
    return options;
  }

  Octets memory_;
  Octets carry_;
  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  ReplyPool pool_;
  NativeCounters counters_;
  Native native_;
  NativeSession session_;
  ReplyQueue replies_;
};

Octets& operator<<(Octets& bytes, const protocol::Request& request) {
  Octets frame(protocol::kMaxRequestBytes);
  frame.resize(protocol::encode(request, frame));
  bytes.insert(bytes.end(), frame.begin(), frame.end());
  return bytes;
}

Octets hello(std::uint16_t min_version = 1, std::uint16_t max_version = 1) {
  protocol::Hello message;
  message.tag = 9;
  message.min_version = min_version;
  message.max_version = max_version;
  Octets frame(protocol::kMaxHelloBytes);
  frame.resize(protocol::encode(message, frame));
  return frame;
}

protocol::Request take(std::uint32_t tag, std::string_view key, std::uint32_t cost = 1) {
  protocol::Request request;
  request.op = Op::take;
  request.tag = tag;
  request.cost = cost;
  request.policy = protocol::policy_id("partner");
  request.key = protocol::as_body(key);
  return request;
}

std::vector<protocol::Reply> decode(const Octets& bytes) {
  std::vector<protocol::Reply> replies;
  for (protocol::Bytes rest = bytes; !rest.empty();) {
    const std::size_t size = protocol::wire::load<std::uint16_t>(rest.data());
    REQUIRE(size <= rest.size());
    const auto reply = protocol::decode_reply(rest.first(size));
    REQUIRE(reply);
    replies.push_back(*reply);
    rest = rest.subspan(size);
  }
  return replies;
}

protocol::Bytes last_frame(protocol::Bytes bytes) {
  for (;;) {
    const std::size_t size = protocol::wire::load<std::uint16_t>(bytes.data());
    REQUIRE(size <= bytes.size());
    REQUIRE(size >= protocol::kFramePrefixBytes);
    if (size == bytes.size()) return bytes;
    bytes = bytes.subspan(size);
  }
}

TEST_CASE("HELLO is answered with what the server is") {
  Fixture fixture;
  CHECK(fixture.receive(hello()) == Outcome::keep);
  CHECK(fixture.session().is_greeted());
  const Octets bytes = fixture.take_replies();
  const auto reply = protocol::decode_hello_reply(bytes);
  REQUIRE(reply);
  CHECK(reply->status == Status::ok);
  CHECK(reply->tag == 9);
  CHECK(reply->boot_id == 77);
  CHECK(reply->clock_us == kNow.us);
  CHECK(reply->configuration_version == 5);
  CHECK(reply->max_frame_bytes == protocol::kMaxFrameBytes);
}

TEST_CASE("a version that nobody speaks ends the session") {
  Fixture fixture;
  CHECK(fixture.receive(hello(2, 7)) == Outcome::close);
  const Octets bytes = fixture.take_replies();
  const auto reply = protocol::decode_hello_reply(bytes);
  REQUIRE(reply);
  CHECK(reply->status == Status::not_supported);
  CHECK(reply->version == 1);
  CHECK(fixture.count(NativeCount::refused_hello) == 1);
}

// One of everything that a stream can hold without being malformed.
Octets mixed_stream() {
  Octets stream = hello();
  protocol::Request ping;
  ping.op = Op::ping;
  ping.tag = 1;
  protocol::Request peek = take(3, "alice", 0);
  peek.op = Op::peek;
  protocol::Request reset = take(7, "alice", 0);
  reset.op = Op::reset;
  protocol::Request late = take(8, "alice");
  late.expires_us = static_cast<std::uint32_t>(kNow.us) - 1;
  protocol::Request unknown = take(9, "alice");
  unknown.policy = 12345;
  protocol::Request bad_limit = take(10, "alice");
  bad_limit.policy = 0;
  bad_limit.has_inline_limit = true;
  protocol::Request no_such_operation = take(11, "alice");
  no_such_operation.op = static_cast<Op>(0x55);
  stream << ping << take(2, "alice") << peek << take(4, "alice", 2) << take(5, "alice")
         << take(6, "alice", 9) << reset << late << unknown << bad_limit << no_such_operation
         << take(12, "alice", 3);
  return stream;
}

void check_mixed(const Octets& bytes) {
  const std::size_t hello_size = protocol::wire::load<std::uint16_t>(bytes.data());
  const Octets rest(bytes.begin() + static_cast<std::ptrdiff_t>(hello_size), bytes.end());
  const auto replies = decode(rest);
  const Status expected[] = {Status::ok,
                             Status::ok,
                             Status::ok,
                             Status::ok,
                             Status::denied,
                             Status::never,
                             Status::ok,
                             Status::expired,
                             Status::unknown_policy,
                             Status::bad_request,
                             Status::not_supported,
                             Status::ok};
  REQUIRE(replies.size() == std::size(expected));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    CAPTURE(i);
    CHECK(replies[i].tag == i + 1);
    CHECK(replies[i].status == expected[i]);
    const bool is_error = !protocol::is_decision(expected[i]) && expected[i] != Status::expired;
    CHECK(replies[i].body.empty() == !is_error);
  }
  CHECK(replies[1].remaining == 2);
  CHECK(replies[2].remaining == 2);
  CHECK(replies[3].remaining == 0);
  CHECK(replies[4].wait_ns > 0);
  CHECK(replies[5].wait_ns == protocol::kWaitForever);
  CHECK(replies[6].remaining == 3);
  CHECK(replies[11].remaining == 0);
}

TEST_CASE("every kind of request in one stream, cut at every byte") {
  const Octets stream = mixed_stream();
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    Fixture fixture;
    CHECK(fixture.receive(protocol::Bytes(stream).first(cut)) == Outcome::keep);
    CHECK(fixture.receive(protocol::Bytes(stream).subspan(cut)) == Outcome::keep);
    check_mixed(fixture.take_replies());
    CHECK(fixture.count(NativeCount::frames) == 12);
    CHECK(fixture.count(Status::expired) == 1);
    CHECK_FALSE(fixture.session().is_mid_frame());
  }
}

TEST_CASE("the same byte by byte, and in random pieces") {
  const Octets stream = mixed_stream();
  test::Random random;
  for (int round = 0; round < 200; ++round) {
    Fixture fixture;
    for (protocol::Bytes rest = stream; !rest.empty();) {
      const std::size_t size =
          round == 0 ? 1 : random.between(1, std::min<std::size_t>(rest.size(), 90));
      REQUIRE(fixture.receive(rest.first(size)) == Outcome::keep);
      rest = rest.subspan(size);
    }
    check_mixed(fixture.take_replies());
  }
}

TEST_CASE("a malformed frame ends the session after the good ones before it") {
  for (std::size_t good = 0; good < 40; ++good) {
    Fixture fixture;
    Octets stream = hello();
    for (std::size_t i = 0; i < good; ++i) stream << take(static_cast<std::uint32_t>(i + 1), "k");
    const std::size_t broken_at = stream.size();
    stream << take(1000, "k");
    stream[broken_at + protocol::request_at::kHeaderSize] = std::byte{9};
    stream << take(1001, "k");
    CHECK(fixture.receive(stream) == Outcome::close);
    Octets bytes = fixture.take_replies();
    bytes.erase(bytes.begin(), bytes.begin() + protocol::kHelloReplyHeaderBytes);
    const auto replies = decode(bytes);
    REQUIRE(replies.size() == good + 1);
    CHECK(replies.back().status == Status::bad_request);
    CHECK(replies.back().tag == 1000);
    CHECK(fixture.count(NativeCount::malformed) == 1);
  }
}

TEST_CASE("an impossible size ends the session") {
  Fixture fixture;
  Octets stream = hello();
  stream << take(1, "k");
  stream.insert(stream.end(), 16, std::byte{0});
  CHECK(fixture.receive(stream) == Outcome::close);
  CHECK(fixture.count(NativeCount::malformed) == 1);
  CHECK(fixture.count(Status::ok) == 1);
}

TEST_CASE("bytes that are no HELLO are refused at the first that shows it") {
  Fixture fixture;
  CHECK(fixture.receive(protocol::as_body("GET / HTTP/1.1\r\n")) == Outcome::close);
  const Octets bytes = fixture.take_replies();
  const auto reply = protocol::decode_hello_reply(bytes);
  REQUIRE(reply);
  CHECK(reply->status == Status::bad_request);
  CHECK_FALSE(reply->error.empty());
  CHECK(fixture.count(NativeCount::refused_hello) == 1);
}

TEST_CASE("no room for replies ends the session, it does not break it") {
  Fixture fixture;
  ReplyQueue hoarder;
  Octets stream = hello();
  for (std::uint32_t i = 0; i < 1000; ++i) stream << take(i + 1, "k");
  while (!hoarder.room(ReplyBlock::kRoomBytes, fixture.pool()).empty()) {
    hoarder.append(ReplyBlock::kRoomBytes);
  }
  hoarder.sent(ReplyBlock::kRoomBytes, fixture.pool());
  CHECK(fixture.receive(stream) == Outcome::out_of_memory);
  hoarder.clear(fixture.pool());
}

// A thousand numbers, of which a page holds a part.
class ManyNumbers final : public StatsSource {
 public:
  std::size_t shard_count() const noexcept override { return 2; }
  std::size_t stat_count() const noexcept override { return kCount; }
  protocol::Stat stat(std::size_t index, std::size_t shard) const noexcept override {
    return {protocol::StatKind::counter, kName, index * 10 + shard};
  }
  static constexpr std::size_t kCount = 1000;
  static constexpr std::string_view kName =
      "a_name_of_the_greatest_length_that_is_allowed_which_is_64_chars_";
  static_assert(kName.size() == protocol::kMaxStatNameBytes);
};

protocol::Request stats(std::uint32_t tag, std::uint32_t first = 0, std::uint32_t shard = 0) {
  protocol::Request request;
  request.op = Op::stats;
  request.tag = tag;
  request.policy = shard;
  request.cost = first;
  return request;
}

std::vector<protocol::Reply> replies_after_hello(Fixture& fixture, Octets& bytes) {
  bytes = fixture.take_replies();
  bytes.erase(bytes.begin(), bytes.begin() + protocol::kHelloReplyHeaderBytes);
  return decode(bytes);
}

TEST_CASE("STATS is answered in its place among takes, page after page") {
  const ManyNumbers numbers;
  Fixture fixture({.stats = &numbers});
  Octets stream = hello();
  for (std::uint32_t i = 1; i <= 20; ++i) stream << take(i, "k");
  stream << stats(21) << stats(22, 900, 2) << take(23, "k") << stats(24, 1000) << take(25, "k");
  constexpr std::uint32_t kLast = 25;
  REQUIRE(fixture.receive(stream) == Outcome::keep);
  Octets bytes;
  const auto replies = replies_after_hello(fixture, bytes);
  REQUIRE(replies.size() == kLast);
  for (std::uint32_t i = 0; i < kLast; ++i) CHECK(replies[i].tag == i + 1);
  CHECK(replies[22].op == Op::take);
  CHECK(fixture.count(NativeCount::frames) == kLast);

  const auto check_page = [](const protocol::Reply& page, std::size_t first, std::size_t shard) {
    CHECK(page.status == Status::ok);
    CHECK(page.limit == 2);
    CHECK(first + page.granted + page.remaining == ManyNumbers::kCount);
    CHECK(page.body.size() <= protocol::kMaxStatsBodyBytes);
    protocol::Bytes body = page.body;
    std::size_t index = first;
    while (!body.empty()) {
      const auto stat = protocol::take_stat(body);
      REQUIRE(stat);
      CHECK(stat->value == index++ * 10 + shard);
    }
    CHECK(index == first + page.granted);
  };
  check_page(replies[20], 0, 0);
  CHECK(replies[20].remaining > 0);
  check_page(replies[21], 900, 2);
  check_page(replies[23], 1000, 0);
  CHECK(replies[23].granted == 0);
}

TEST_CASE("a shard that is not there, and a server without numbers") {
  const ManyNumbers numbers;
  for (const StatsSource* source : {static_cast<const StatsSource*>(&numbers), {}}) {
    Fixture fixture({.stats = source});
    Octets stream = hello();
    stream << stats(1, 0, 3) << stats(2, 4'000'000'000);
    REQUIRE(fixture.receive(stream) == Outcome::keep);
    Octets bytes;
    const auto replies = replies_after_hello(fixture, bytes);
    REQUIRE(replies.size() == 2);
    CHECK(replies[0].status == (source != nullptr ? Status::bad_request : Status::not_supported));
    CHECK(replies[1].status == (source != nullptr ? Status::ok : Status::not_supported));
    CHECK(replies[1].granted == 0);
  }
}

TEST_CASE("a flood of STATS is refused rather than multiplied") {
  const ManyNumbers numbers;
  Fixture fixture({.stats = &numbers});
  Octets stream = hello();
  for (std::uint32_t i = 0; i < 600; ++i) stream << stats(i + 1);
  REQUIRE(fixture.receive(stream) == Outcome::keep);
  CHECK(fixture.count(Status::ok) == Native::kStatsPerChunk);
  CHECK(fixture.count(Status::overloaded) == 600 - Native::kStatsPerChunk);
}

TEST_CASE("a SETTLE that is refused leaves its grant as it was") {
  Fixture fixture;
  protocol::Request estimate = take(1, "alice", 3);
  estimate.wants_grant = true;
  Octets stream = hello();
  REQUIRE(fixture.receive(stream << estimate) == Outcome::keep);
  Octets bytes;
  auto replies = replies_after_hello(fixture, bytes);
  REQUIRE(replies.size() == 1);
  protocol::Request settle = take(2, "alice", 1);
  settle.op = Op::settle;
  settle.grant = protocol::read_grant(replies[0].body)->id;
  protocol::Request other_key = settle;
  other_key.key = protocol::as_body("bob");
  protocol::Request other_policy = settle;
  other_policy.policy = 12345;
  Octets more;
  more << other_key << other_policy << settle << settle;
  REQUIRE(fixture.receive(more) == Outcome::keep);
  bytes = fixture.take_replies();
  replies = decode(bytes);
  REQUIRE(replies.size() == 4);
  CHECK(replies[0].status == Status::bad_request);
  CHECK(replies[1].status == Status::unknown_policy);
  CHECK(replies[2].status == Status::ok);
  CHECK(replies[2].granted == 1);
  CHECK(replies[2].remaining == 2);
  CHECK(replies[3].status == Status::bad_request);
}

TEST_CASE("a lease is returned once, by its connection, for its key, and no more than it brought") {
  Fixture fixture;
  protocol::Request lease = take(1, "alice", 1000);
  lease.op = Op::lease;
  lease.policy = protocol::policy_id("leased");
  Octets stream = hello();
  REQUIRE(fixture.receive(stream << lease) == Outcome::keep);
  Octets bytes;
  auto replies = replies_after_hello(fixture, bytes);
  REQUIRE(replies.size() == 1);
  CHECK(replies[0].granted == 50);  // half of 100
  CHECK(replies[0].remaining == 50);
  const auto grant = protocol::read_grant(replies[0].body);
  REQUIRE(grant.has_value());
  CHECK(grant->ttl_us == 1'000'000);

  protocol::Request give_back = lease;
  give_back.op = Op::give_back;
  give_back.grant = grant->id;
  give_back.cost = 20;
  protocol::Request too_many = give_back;
  too_many.cost = 51;
  protocol::Request other_key = give_back;
  other_key.key = protocol::as_body("bob");
  protocol::Request settle = give_back;
  settle.op = Op::settle;
  protocol::Request unleased = lease;
  unleased.policy = protocol::policy_id("partner");
  protocol::Request small = lease;
  small.cost = 4;
  Octets more;
  more << too_many << other_key << settle << give_back << give_back << unleased << small;
  REQUIRE(fixture.receive(more) == Outcome::keep);
  bytes = fixture.take_replies();
  replies = decode(bytes);
  REQUIRE(replies.size() == 7);
  for (const int wrong : {0, 1, 2, 4}) {
    CHECK(replies[static_cast<std::size_t>(wrong)].status == Status::bad_request);
  }
  CHECK(replies[3].status == Status::ok);
  CHECK(replies[3].granted == 20);
  CHECK(replies[3].remaining == 70);
  CHECK(protocol::read_grant(replies[5].body) == protocol::Grant{0, 0});
  CHECK(replies[5].granted == 0);
  CHECK(replies[5].remaining == 3);
  CHECK(protocol::read_grant(replies[6].body) == protocol::Grant{0, 1'000'000});
  CHECK(replies[6].granted == 0);
}

TEST_CASE("batches are counted by size") {
  Fixture fixture;
  Octets stream = hello();
  for (std::uint32_t i = 0; i < 64 + 5; ++i) stream << take(i + 1, "k");
  REQUIRE(fixture.receive(stream) == Outcome::keep);
  CHECK(fixture.count(NativeCount::batches_of_64) == 1);
  CHECK(fixture.count(NativeCount::batches_of_4) == 1);
  CHECK(fixture.count(NativeCount::batches) == 2);
}

// Whatever arrives: no crash, no read outside the chunk (the sanitizers look), every byte of reply
// whole.
TEST_CASE("random bytes after a good HELLO") {
  test::Random random;
  for (int round = 0; round < 1000; ++round) {  // a server each; the fuzzers go on from there
    Fixture fixture;
    Octets stream = mixed_stream();
    const std::size_t flips = random.between(1, 8);
    for (std::size_t i = 0; i < flips; ++i) {
      const std::size_t at = random.between(hello().size(), stream.size() - 1);
      stream[at] = static_cast<std::byte>(random.next());
    }
    const std::size_t cut = random.below(stream.size());
    Outcome outcome = fixture.receive(protocol::Bytes(stream).first(cut));
    if (outcome == Outcome::keep) outcome = fixture.receive(protocol::Bytes(stream).subspan(cut));
    CHECK(outcome != Outcome::out_of_memory);
    Octets bytes = fixture.take_replies();
    bytes.erase(bytes.begin(), bytes.begin() + protocol::kHelloReplyHeaderBytes);
    if (bytes.empty()) continue;
    // A second HELLO is refused in HELLO's own words: the last thing said.
    const bool is_second_hello = protocol::wire::load<std::uint8_t>(last_frame(bytes).data() + 2) ==
                                 static_cast<std::uint8_t>(Op::hello);
    if (!is_second_hello) static_cast<void>(decode(bytes));
  }
}

}  // namespace
}  // namespace pail::frontend
