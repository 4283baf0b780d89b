// Concern: a bad network costs connections, never an answer that is wrong, a charge without a
// request, or the server. Method: a proxy between the client and the server that cuts, delays and
// breaks the stream; the seed is printed and taken from PAIL_SEED.
#include <thread>

#include "tests/server/fixture.hpp"
#include "tests/support/chaos_proxy.hpp"

namespace pail::test {
namespace {

using frontend::NativeCount;
using protocol::Status;
using server::ShardCount;

constexpr std::uint32_t kBudget = 1'000'000;

struct Tally {
  std::uint32_t sent = 0;      // takes of one token
  std::uint32_t admitted = 0;  // that an answer said so
  bool is_in_order = true;
};

// Some takes in one go, and their answers as far as they come.
Tally converse(RawClient client, std::string_view key, std::uint32_t count) {
  Tally tally;
  if (!client.greet()) return tally;
  Octets bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    bytes = joined(std::move(bytes), request_bytes(slow_take(i + 1, key, kBudget)));
  }
  std::thread sender([&] { client.send(bytes); });
  tally.sent = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto reply = client.reply();
    if (!reply) break;
    tally.is_in_order &= reply->tag == i + 1 && reply->status == Status::ok;
    ++tally.admitted;
  }
  client.stop();  // a sender that waits for a dead server gives up
  sender.join();
  return tally;
}

std::uint32_t charged(TestServer& server, std::string_view key) {
  RawClient client = server.greeted();
  protocol::Request peek = slow_take(1, key, kBudget);
  peek.op = protocol::Op::peek;
  peek.cost = 0;
  REQUIRE(client.send(request_bytes(peek)));
  const auto reply = client.reply();
  REQUIRE(reply);
  return kBudget - reply->remaining;
}

TEST_CASE("through delays, stalls and cuts at any byte every answer comes, in order") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    std::uint32_t sent = 0;
    for (const std::uint32_t piece : {1u, 7u, 300u, 5000u}) {
      ChaosProxy proxy(server.address(),
                       {.max_piece_bytes = piece,
                        .max_delay_ms = piece > 7 ? 2u : 0u,
                        .delay_one_in = 16,
                        .stall_ms = 20},
                       piece);
      const std::uint32_t count = std::min(piece * 20, 2000u);
      const Tally tally = converse(RawClient(proxy.address()), "benign", count);
      CHECK(tally.is_in_order);
      CHECK(tally.admitted == count);
      sent += count;
    }
    CHECK(charged(server, "benign") == sent);
    CHECK(server->count(NativeCount::malformed) == 0);
  }
}

TEST_CASE("connections that end in every way charge at most what was sent") {
  for (const auto io : kBackends) {
    auto config = local_config(io, 2);
    config.limits.hello_timeout_ms = 200;
    config.limits.tick_ms = 10;
    TestServer server(config);
    ChaosProxy proxy(server.address(),
                     {.max_piece_bytes = 600,
                      .max_delay_ms = 1,
                      .delay_one_in = 32,
                      .fate_within_bytes = 6000,
                      .fates = {Fate::lives, Fate::drop, Fate::reset, Fate::half_close}});
    constexpr int kThreads = 4;
    constexpr int kRounds = 25;
    std::vector<std::thread> threads;
    std::vector<Tally> totals(kThreads);
    for (Tally& total : totals) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) {
          const Tally tally = converse(RawClient(proxy.address()), "broken", 100);
          total.sent += tally.sent;
          total.admitted += tally.admitted;
          total.is_in_order &= tally.is_in_order;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    Tally all;
    for (const Tally& total : totals) {
      CHECK(total.is_in_order);
      all.sent += total.sent;
      all.admitted += total.admitted;
    }
    CHECK(eventually([&] { return server->connections() == 0; }));
    const std::uint32_t taken = charged(server, "broken");
    CHECK(all.admitted <= taken);
    CHECK(taken <= all.sent);
    CHECK(proxy.met(Fate::drop) > 0);
    CHECK(proxy.met(Fate::reset) > 0);
    CHECK(proxy.met(Fate::half_close) > 0);
    CHECK(server->count(NativeCount::malformed) == 0);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("peers that vanish without a word are let go in the end") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.hello_timeout_ms = 100;
    config.limits.idle_timeout_ms = 100;
    config.limits.stuck_timeout_ms = 100;
    config.limits.hoarding_timeout_ms = 100;
    config.limits.tick_ms = 10;
    TestServer server(config);
    ChaosProxy proxy(server.address(),
                     {.max_piece_bytes = 300, .fate_within_bytes = 2000, .fates = {Fate::vanish}});
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
      clients.emplace_back(proxy.address());
      Octets bytes = hello_bytes();
      for (std::uint32_t n = 0; n < 100; ++n) {
        bytes = joined(std::move(bytes), request_bytes(slow_take(n, "gone", kBudget)));
      }
      clients.back().send_some(bytes);
    }
    CHECK(eventually([&] { return server->count(ShardCount::accepted) == clients.size(); }));
    CHECK(eventually([&] { return server->connections() == 0; }));
    CHECK(server->count(NativeCount::malformed) == 0);
    CHECK(server.is_healthy());
  }
}

}  // namespace
}  // namespace pail::test
