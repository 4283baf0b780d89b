// The native front end with a live engine behind it, for any bytes whatever. What must hold throws
// where it does not: run by the fuzzer, which looks for such bytes, and by the tests of the front
// end.
//
// Next to the front end goes a model that reads the same chunks: every frame has one reply, in
// order, and each says what the arithmetic says about a plain map of words. So nothing is admitted
// that the limit does not allow, a refusal charges nothing, and nothing behind a malformed frame
// counts.
#pragma once

#include <array>
#include <utility>

#include "tests/fuzz/native_model.hpp"

namespace pail::test {

// A few numbers for STATS.
class NativeNumbers final : public frontend::StatsSource {
 public:
  [[nodiscard]] std::size_t shard_count() const noexcept override { return 2; }
  [[nodiscard]] std::size_t stat_count() const noexcept override { return 300; }
  [[nodiscard]] protocol::Stat stat(std::size_t index, std::size_t shard) const noexcept override {
    return {protocol::StatKind::gauge, "a_number_with_a_rather_long_name_to_fill_pages",
            index * 10 + shard};
  }
};

// One connection to one front end, and the model beside it.
class NativeRun {
 public:
  explicit NativeRun(std::size_t memory_bytes)
      : engine_({.memory_limit_bytes = memory_bytes, .policies = native_policies(), .secret = {}}),
        worker_(engine_.enroll()),
        pool_(pool_memory()),
        native_(*worker_, pool_, counters_, frontend::Identity{77, 5},
                {.stats = &numbers_, .most_grants = kMostGrants}),
        carry_(protocol::kMaxFrameBytes),
        session_(carry_),
        model_carry_(protocol::kMaxFrameBytes),
        reader_(model_carry_, FrameReader::Phase::hello) {}
  ~NativeRun() {
    native_.forget(session_);
    queue_.clear(pool_);
  }
  NativeRun(const NativeRun&) = delete;
  NativeRun& operator=(const NativeRun&) = delete;

  // False: the connection is over. The chunk is gone when this returns.
  bool receive(Bytes bytes, const frontend::Now& now) {
    const ExactBytes chunk(bytes);
    const frontend::Outcome outcome = native_.receive(session_, chunk.bytes(), now, queue_);
    require(outcome != frontend::Outcome::out_of_memory, "there was room for every reply");
    const std::size_t before = replies_.size();
    drain();
    unread_ = Bytes(replies_).subspan(before);
    const bool goes_on = expect(chunk.bytes(), now);
    require(unread_.empty(), "more was answered than asked: " + to_hex(unread_));
    require(goes_on == (outcome == frontend::Outcome::keep),
            goes_on ? "a good connection was closed" : "a broken stream was kept");
    return goes_on;
  }

  [[nodiscard]] const Octets& replies() const { return replies_; }
  // Pages, of POLICY too, are counted by the chunk, so then the chunks matter.
  [[nodiscard]] bool has_refused_stats() const { return refused_stats_; }

 private:
  // More than a stream of 4 KiB can ask for. A server's own ledger takes two thirds of the time, as
  // the sanitizer marks all of it twice an input.
  static constexpr std::uint32_t kMostGrants = 256;

  // Not allocated anew for every input: that would be most of the work.
  static std::span<std::byte> pool_memory() {
    static Octets memory(64 * frontend::ReplyBlock::kSizeBytes);
    return memory;
  }

  void drain() {
    while (!queue_.front().empty()) {
      const auto front = queue_.front();
      replies_.insert(replies_.end(), front.begin(), front.end());
      queue_.sent(front.size(), pool_);
    }
  }

  Bytes next_reply() {
    require(unread_.size() >= protocol::kFramePrefixBytes, "a reply is missing");
    const std::size_t size = protocol::wire::load<std::uint16_t>(unread_.data());
    require(size >= protocol::kFramePrefixBytes && size <= unread_.size(), "half a reply");
    const Bytes frame = unread_.first(size);
    unread_ = unread_.subspan(size);
    return frame;
  }

  void expect_error(const protocol::DecodeError& error) {
    const Octets expected = encoded(error);
    const Bytes frame = next_reply();
    require(std::equal(frame.begin(), frame.end(), expected.begin(), expected.end()),
            "another answer than " + describe(error) + ": " + to_hex(frame));
  }

  // What the replies to this chunk must be. False: the last of them ends the connection.
  bool expect(Bytes chunk, const frontend::Now& now) {
    reader_.feed(chunk);
    stats_left_ = frontend::Native::kStatsPerChunk;
    while (const auto frame = reader_.next()) {
      const bool goes_on = greeted_ ? expect_reply(*frame, now) : expect_greeting(*frame, now);
      if (!goes_on) return false;
    }
    if (const auto error = reader_.error()) return expect_error(*error), false;
    reader_.end_chunk();
    return true;
  }

  bool expect_greeting(Bytes frame, const frontend::Now& now) {
    const auto hello = protocol::decode_hello(frame);
    if (!hello) return expect_error(hello.error()), false;
    const auto reply = protocol::decode_hello_reply(next_reply());
    require(reply && reply->tag == hello->tag && reply->clock_us == now.us, "the answer to HELLO");
    greeted_ = protocol::negotiate_version(*hello) != 0;
    require((reply->status == protocol::Status::ok) == greeted_, "the version was not agreed on");
    if (greeted_) reader_.accept_hello();
    return greeted_;
  }

  bool expect_reply(Bytes frame, const frontend::Now& now) {
    const auto request = protocol::decode_request(frame);
    if (!request) return expect_error(request.error()), !request.error().fatal;
    if (request->op == protocol::Op::stats &&
        !protocol::has_expired(request->expires_us, static_cast<std::uint32_t>(now.us))) {
      return expect_stats(*request), true;
    }
    if (request->op == protocol::Op::policy &&
        !protocol::has_expired(request->expires_us, static_cast<std::uint32_t>(now.us))) {
      return expect_no_policies(*request), true;
    }
    const auto reply = protocol::decode_reply(next_reply());
    require(reply.has_value(), "a reply that cannot be read");
    protocol::Reply expected = model_.expected(*request, now);
    if (reply->status == protocol::Status::table_full) {
      if (request->op == protocol::Op::take_all) {
        model_.take_back_layers();
        return true;
      }
      require(request->op == protocol::Op::take || request->op == protocol::Op::lease,
              "no room, for a request that needs none");
      model_.take_back();
      expected.status = protocol::Status::table_full;
      expected.granted = expected.remaining = 0;
      expected.reset_ns = 0;
      expected.wait_ns = engine::kTableFullRetryNs;
    }
    const bool is_error =
        !protocol::is_decision(expected.status) && expected.status != protocol::Status::expired;
    const bool is_lease = request->op == protocol::Op::lease;
    const bool is_grant =
        (request->wants_grant || is_lease) && expected.status == protocol::Status::ok;
    const bool is_layered =
        request->op == protocol::Op::take_all && protocol::is_decision(expected.status);
    require(reply->body.empty() == !(is_error || is_grant || is_layered),
            "an error says why, and only an error");
    if (is_grant) {
      const auto grant = protocol::read_grant(reply->body);
      require(grant && (grant->id == 0) == (expected.granted == 0),
              "no grant with what wanted one");
      require(!is_lease || (grant->ttl_us != 0) == (request->policy == 6), "what is leased");
      if (grant->id != 0) model_.note_grant(*request, grant->id, expected.granted, now);
    }
    if (is_layered) {
      require(reply->body.size() == request->cost * protocol::kLayerStateBytes, "a state a layer");
    }
    expected.body = reply->body;
    if (describe(*reply) != describe(expected)) {  // else there is nothing to say, a tenth faster
      require(false, "to " + describe(*request) + "\nexpected " + describe(expected) +
                         "\nbut got  " + describe(*reply));
    }
    return true;
  }

  // So many pages a chunk, each as full as it may be, and the numbers that were asked for.
  // There is nobody here to ask about policies.
  void expect_no_policies(const protocol::Request& request) {
    const auto reply = protocol::decode_reply(next_reply());
    require(reply && reply->op == request.op && reply->tag == request.tag, "the answer to POLICY");
    refused_stats_ |= stats_left_ == 0;
    require(reply->status ==
                (stats_left_ == 0 ? protocol::Status::overloaded : protocol::Status::not_supported),
            "an answer of nobody");
  }

  void expect_stats(const protocol::Request& request) {
    using protocol::Status;
    const auto reply = protocol::decode_reply(next_reply());
    require(reply && reply->op == request.op && reply->tag == request.tag, "the answer to STATS");
    if (stats_left_ == 0) {
      refused_stats_ = true;
      return require(reply->status == Status::overloaded, "a page too many");
    }
    if (request.policy > numbers_.shard_count()) {
      return require(reply->status == Status::bad_request, "numbers of no shard");
    }
    --stats_left_;
    require(reply->status == Status::ok && reply->limit == 2, "no numbers");
    std::size_t index = request.cost;
    Bytes body = reply->body;
    for (std::uint32_t n = 0; n < reply->granted; ++n) {
      const auto stat = protocol::take_stat(body);
      require(stat && *stat == numbers_.stat(index++, request.policy), "another number");
    }
    require(body.empty(), "something behind the numbers");
    const std::size_t count = numbers_.stat_count();
    require(reply->remaining == (index < count ? count - index : 0), "how many are left");
    require(reply->granted > 100 || reply->remaining == 0, "a page that is not full");
  }

  NativeNumbers numbers_;
  std::size_t stats_left_ = 0;
  bool refused_stats_ = false;
  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  frontend::ReplyPool pool_;
  frontend::NativeCounters counters_;
  frontend::Native native_;
  Octets carry_;
  frontend::NativeSession session_;
  frontend::ReplyQueue queue_;

  Octets replies_;
  Bytes unread_;
  NativeModel model_;
  Octets model_carry_;
  FrameReader reader_;
  bool greeted_ = false;
};

// Requests that meet: few keys under few limits, so that budgets run out, with every field in use.
inline Octets native_session(Random& random, std::size_t requests) {
  using protocol::Op;
  constexpr protocol::InlineLimit kLimits[] = {{1'000'000'000, 3, 1},
                                               {1'000'000'000, 3, 20},
                                               {86'400'000'000'000, 7, 5},
                                               {1, 1'000, 3},
                                               {0, 1, 1}};
  constexpr std::string_view kKeys[] = {"a", {"\0b", 2}, "\xff\xfe"};
  constexpr Op kOps[] = {Op::take,      Op::take,     Op::take,    Op::take,     Op::peek,
                         Op::reset,     Op::ping,     Op::stats,   Op::take_all, Op::settle,
                         Op::settle,    Op::acquire,  Op::release, Op::lease,    Op::lease,
                         Op::give_back, Op::give_back};
  Octets stream;
  for (std::uint32_t i = 1; i <= requests; ++i) {
    protocol::Request request;
    request.op = kOps[random.below(std::size(kOps))];
    request.tag = i;
    if (request.op == Op::stats) {
      request.policy = static_cast<std::uint32_t>(random.below(4));
      request.cost = static_cast<std::uint32_t>(random.below(400));
    } else if (request.op != Op::ping) {
      request.key = protocol::as_body(kKeys[random.below(std::size(kKeys))]);
      if (random.one_in(8)) request.expires_us = static_cast<std::uint32_t>(random.next());
      request.has_inline_limit = random.one_in(2);
      if (request.has_inline_limit) {
        request.inline_limit = kLimits[random.below(std::size(kLimits))];
      } else {
        request.policy = static_cast<std::uint32_t>(random.between(5, 7));  // 7 there is not
      }
    }
    if (request.op == Op::take || request.op == Op::peek) {
      request.cost = static_cast<std::uint32_t>(
          random.between(request.op == Op::take ? 1 : 0, random.one_in(4) ? 25 : 3));
      request.priority = static_cast<std::uint8_t>(random.below(4));
      request.partial = random.one_in(3);
    }
    Octets layers;
    if (request.op > Op::peek && request.op != Op::reset && request.op != Op::stats) {
      request.has_inline_limit = false;
      request.policy = static_cast<std::uint32_t>(random.between(5, 7));
      request.cost = static_cast<std::uint32_t>(random.between(1, 5));
      // The first grants of a connection, and their records used again.
      request.grant = random.between(1, 4) | random.below(3) << 32;
    } else if (request.op == Op::take && !request.has_inline_limit) {
      request.wants_grant = random.one_in(2);
    }
    if (request.op == Op::take_all) {
      std::array<protocol::Layer, 3> each;
      for (protocol::Layer& layer : each) {
        layer = {static_cast<std::uint32_t>(random.between(5, random.one_in(8) ? 7 : 6)),
                 static_cast<std::uint32_t>(random.between(1, random.one_in(4) ? 25 : 3)),
                 protocol::as_body(kKeys[random.below(std::size(kKeys))])};
      }
      layers.resize(protocol::kMaxLayersBytes);
      request.policy = 0;
      request.cost = static_cast<std::uint32_t>(random.between(1, 3));
      layers.resize(protocol::encode(std::span<const protocol::Layer>(each).first(request.cost),
                                     protocol::Buffer(layers)));
      request.key = layers;
    }
    const Octets frame = encoded(request);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  return stream;
}

// The first byte says whether a good HELLO goes ahead, how many keys there is room for, and how
// the clock moves; the second seeds the sizes of the chunks; the rest is the stream.
inline void check_native_input(Bytes input) {
  if (input.size() < 2) return;
  const auto flags = std::to_integer<std::uint64_t>(input[0]);
  auto state = std::to_integer<std::uint64_t>(input[1]);
  const auto next_random = [&] {
    state = state * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
    return state >> 33;
  };
  // None at all, so that every new key finds the table full; or plenty.
  const std::size_t memory_bytes = (flags & 2) != 0 ? 0 : std::size_t{64} << 20;
  const std::uint64_t start_ns =
      (flags & 4) != 0 ? engine::kMaxNow / engine::kTicksPerNs : 1'000'000'000'000;
  constexpr std::uint64_t kSteps[] = {0, 1, 1'000, 333'333'333, 30'000'000'000, 86'400'000'000'000};
  const std::uint64_t step_ns = kSteps[(flags >> 4) % std::size(kSteps)];

  Octets stream;
  if ((flags & 1) != 0) stream = encoded(protocol::Hello{});
  stream.insert(stream.end(), input.begin() + 2, input.end());

  NativeRun chunked(memory_bytes);
  bool goes_on = true;
  std::uint64_t now_ns = start_ns;
  for (Bytes rest = stream; !rest.empty() && goes_on;) {
    const std::size_t wish = next_random() % ((flags & 8) != 0 ? 40 : 1000) + 1;
    const std::size_t size = std::min(wish, rest.size());
    goes_on = chunked.receive(rest.first(size), {engine::ticks_from_ns(now_ns), now_ns / 1000});
    now_ns += step_ns * (next_random() % 8);
    rest = rest.subspan(size);
  }
  if (step_ns != 0 || stream.empty()) return;
  NativeRun whole(memory_bytes);
  static_cast<void>(whole.receive(stream, {engine::ticks_from_ns(start_ns), start_ns / 1000}));
  if (whole.has_refused_stats()) return;
  require(whole.replies() == chunked.replies(), "chunks are answered otherwise than the whole");
}

}  // namespace pail::test
