// Concern: limits hold for a crowd as for one peer, and nobody who behaves pays for those who do
// not. Method: small limits, peers that stop half-way, and a healthy client beside them.
#include <thread>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using server::ShardCount;

constexpr std::uint32_t kAges = 600'000;  // ms: longer than any test

TEST_CASE("a peer that falls silent is closed after the idle timeout, where one is set") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.idle_timeout_ms = 50;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient idle = server.greeted();
    CHECK(idle.wait_for_end());
    CHECK(server->count(ShardCount::idle_timeouts) == 1);
    CHECK(server->count(ShardCount::hello_timeouts) == 0);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("a peer that stops in the middle of a frame is closed, one between two frames is not") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.stuck_timeout_ms = 50;
    config.limits.hoarding_timeout_ms = 50;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient between = server.greeted();
    RawClient within = server.greeted();
    const Octets take = request_bytes(slow_take(1, "half", 10));
    REQUIRE(within.send(protocol::Bytes(take).first(30)));
    CHECK(within.wait_for_end());
    CHECK(server->count(ShardCount::stuck_timeouts) == 1);
    CHECK_FALSE(between.has_ended());
  }
}

// Sends what is taken without waiting, and never reads.
class Hoarder {
 public:
  explicit Hoarder(RawClient client) : client_(std::move(client)) {
    for (int i = 0; i < 200; ++i) {
      bytes_ = joined(std::move(bytes_), request_bytes(slow_take(1, "hoard", 1'000'000)));
    }
  }
  void push() { sent_ = (sent_ + client_.send_some(rest())) % bytes_.size(); }

 private:
  [[nodiscard]] protocol::Bytes rest() const { return protocol::Bytes(bytes_).subspan(sent_); }
  RawClient client_;
  Octets bytes_;
  std::size_t sent_ = 0;
};

TEST_CASE("a crowd that never reads leaves room for those who do") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.io.chunks = 32;  // what a turn brings can be answered out of the reserve
    config.limits.reply_memory_bytes = 2 * 1024 * 1024;
    config.limits.reply_reserve_bytes = 1024 * 1024;
    config.limits.stuck_timeout_ms = kAges;
    config.limits.hoarding_timeout_ms = kAges;
    TestServer server(config);
    RawClient good = server.greeted();
    std::vector<std::unique_ptr<Hoarder>> crowd;
    for (int i = 0; i < 40; ++i) {
      crowd.push_back(std::make_unique<Hoarder>(server.greeted({.receive_buffer_bytes = 4096})));
    }
    // All of them are stuck before the check, not some.
    REQUIRE(eventually([&] {
      for (const auto& hoarder : crowd) hoarder->push();
      return server->count(ShardCount::read_stops) + server->count(ShardCount::hoarders) >=
             crowd.size();
    }));
    const Octets take = request_bytes(slow_take(9, "good", 1'000));
    for (std::uint32_t i = 1; i <= 200; ++i) {
      for (const auto& hoarder : crowd) hoarder->push();
      REQUIRE(good.send(take));
      const auto reply = good.reply();
      REQUIRE(reply);
      REQUIRE(reply->remaining == 1'000 - i);
    }
    CHECK(server->count(ShardCount::reply_memory_out) == 0);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("when reply memory is short, stuck peers are given up sooner") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.reply_memory_bytes = 1024 * 1024;
    config.limits.reply_reserve_bytes = 1024 * 1024;  // always short
    config.limits.stuck_timeout_ms = kAges;
    config.limits.hoarding_timeout_ms = 20;
    config.limits.tick_ms = 10;
    TestServer server(config);
    Hoarder hoarder(server.greeted({.receive_buffer_bytes = 4096}));
    CHECK(eventually([&] {
      hoarder.push();
      return server->count(ShardCount::stuck_timeouts) + server->count(ShardCount::hoarders) > 0;
    }));
    CHECK(eventually([&] { return server->connections() == 0; }));
    CHECK(server.is_healthy());
  }
}

// Without it a shard sleeps between any two requests of one client.
TEST_CASE("a shard that polls does not sleep between requests, and does without any") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.busy_poll_us = 200'000;
    config.limits.tick_ms = 10;  // how often the count of sleeps is told
    TestServer server(config);
    RawClient client = server.greeted();
    protocol::Request ping;
    ping.op = protocol::Op::ping;
    ping.tag = 1;
    const Octets bytes = request_bytes(ping);
    const auto turns = [&] { return server->count(ShardCount::turns); };
    const auto sleeps = [&] { return server->count(ShardCount::sleeps); };
    const std::uint64_t before = turns();
    CHECK(eventually(
        [&] { return client.send(bytes) && client.reply() && turns() >= before + 2'000; }));
    CHECK(sleeps() < 1'000);
    const std::uint64_t slept = sleeps();
    CHECK(eventually([&] { return sleeps() > slept + 3; }));
  }
}

// Every turn with work to do counts as long here, so part of what arrives is shed.
TEST_CASE("a standing backlog is answered overloaded, charges nothing, and ends") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.long_turn_us = 1;
    config.limits.overload_interval_us = 1;
    TestServer server(config);
    RawClient flooder = server.greeted();
    constexpr std::uint32_t kTakes = 100'000;
    Octets flood;
    for (std::uint32_t i = 0; i < kTakes; ++i) {
      const Octets take = request_bytes(slow_take(i + 1, "backlog", 1'000'000));
      flood.insert(flood.end(), take.begin(), take.end());
    }
    std::thread sender([&] { flooder.send(flood); });
    std::uint32_t admitted = 0;
    std::uint32_t overloaded = 0;
    for (std::uint32_t i = 0; i < kTakes; ++i) {
      const auto reply = flooder.reply();
      if (!reply || reply->tag != i + 1) {
        FAIL_CHECK("reply ", i, " is missing");
        break;
      }
      if (reply->status == protocol::Status::ok) ++admitted;
      if (reply->status == protocol::Status::overloaded) ++overloaded;
    }
    sender.join();
    CHECK(admitted + overloaded == kTakes);
    CHECK(overloaded > 0);
    CHECK(server->count(ShardCount::sheddings) > 0);
    REQUIRE(flooder.send(request_bytes(slow_take(7, "backlog", 1'000'000))));
    const auto reply = flooder.reply();
    REQUIRE(reply);
    CHECK(reply->status == protocol::Status::ok);
    CHECK(reply->remaining == 1'000'000 - admitted - 1);
  }
}

}  // namespace
}  // namespace pail::test
