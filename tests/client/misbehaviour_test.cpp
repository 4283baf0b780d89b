// Peers that break the protocol: the connection ends with a typed error for everybody, and nothing
// crashes whatever arrives.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <pail/client.hpp>
#include <string>

#include "protocol/stats.hpp"
#include "tests/client/fixture.hpp"
#include "tests/support/random.hpp"

using namespace std::chrono_literals;
using namespace pail::test;
using pail::Client;
using pail::ErrorCode;
using pail::protocol::Op;
using pail::protocol::Status;

TEST_CASE("what breaks the protocol ends the connection with a typed error") {
  const auto verdict = [](std::function<void(Peer&, const pail::protocol::Request&)> misbehave) {
    std::atomic<int> connections = 0;
    StubServer server([&](Peer& peer) {
      if (++connections > 1) return peer.hang_up();  // none that would take its place
      if (!peer.greet()) return;
      if (const auto request = peer.next()) misbehave(peer, *request);
      peer.wait_for_end();
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    const auto result = client->take(kLimit, "k");
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error().maybe_charged);
    CHECK_FALSE(client->usable());
    const auto again = client->take(kLimit, "k");
    REQUIRE_FALSE(again.has_value());
    CHECK_FALSE(again.error().maybe_charged);
    CHECK(again.error().code == ErrorCode::closed);
    CHECK(again.error().text.find(result.error().text) == 0);
    CHECK(connections == 2);
    return result.error().code;
  };

  CHECK(verdict([](Peer& peer, const auto& request) {
          auto reply = admitted(request);
          reply.tag += 1;
          peer.send(reply);
        }) == ErrorCode::protocol_error);
  CHECK(verdict([](Peer& peer, const auto& request) {
          auto reply = admitted(request);
          reply.op = Op::peek;
          peer.send(reply);
        }) == ErrorCode::protocol_error);
  CHECK(verdict([](Peer& peer, const auto& request) {
          auto reply = admitted(request);
          reply.tag = 0;
          peer.send(reply);
        }) == ErrorCode::protocol_error);
  CHECK(verdict([](Peer& peer, const auto&) { peer.send_text("\xff\xff garbage garbage"); }) ==
        ErrorCode::protocol_error);
  CHECK(verdict([](Peer& peer, const auto& request) {
          auto bytes = to_bytes(admitted(request));
          bytes[3] = std::byte{99};  // no such status
          peer.send(bytes);
        }) == ErrorCode::protocol_error);
  CHECK(verdict([](Peer& peer, const auto& request) {
          const auto bytes = to_bytes(admitted(request));
          peer.send(pail::protocol::Bytes(bytes).first(17));
          peer.hang_up();
        }) == ErrorCode::closed);
  CHECK(verdict([](Peer& peer, const auto&) { peer.hang_up(); }) == ErrorCode::closed);
}

TEST_CASE("numbers of a server: pages put together, and what is malformed or never ends") {
  using pail::protocol::Stat;
  using pail::protocol::StatKind;
  // Each page is one number, and says that so many follow.
  const auto ask = [](std::size_t pages, std::uint32_t granted, std::size_t cut) {
    StubServer server([&](Peer& peer) {
      if (!peer.greet()) return;
      for (std::uint32_t page = 0; const auto request = peer.next(); ++page) {
        CHECK(request->op == Op::stats);
        CHECK(request->policy == 3);
        CHECK(request->cost == page);
        std::array<std::byte, pail::protocol::kMaxStatBytes> body;
        const Stat stat{static_cast<StatKind>(page), "number", page};
        const std::size_t size = pail::protocol::encode(stat, body) - cut;
        auto reply = admitted(*request);
        reply.granted = granted;
        reply.remaining = static_cast<std::uint32_t>(pages - page - 1);
        reply.limit = 9;
        reply.body = pail::protocol::Bytes(body).first(granted == 0 ? 0 : size);
        peer.send(reply);
      }
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    auto stats = client->stats(3);
    CHECK(client->usable() == stats.has_value());
    return stats;
  };
  const auto stats = ask(3, 1, 0);
  REQUIRE(stats.has_value());
  CHECK(stats->shards == 9);
  REQUIRE(stats->numbers.size() == 3);
  CHECK(stats->numbers[0].kind == pail::Stat::Kind::counter);
  CHECK(stats->numbers[1].kind == pail::Stat::Kind::gauge);
  CHECK(stats->numbers[2].kind == pail::Stat::Kind::other);
  CHECK(stats->numbers[2].name == "number");
  CHECK(stats->numbers[2].value == 2);
  CHECK(code_of(ask(3, 2, 0)) == ErrorCode::protocol_error);  // says two, brings one
  CHECK(code_of(ask(1, 1, 1)) == ErrorCode::protocol_error);  // cut off
  CHECK(code_of(ask(2, 0, 0)) == ErrorCode::protocol_error);  // an empty page, and more to come
}

TEST_CASE("an answer to a request that was never made ends the connection") {
  std::atomic<bool> is_first = true;
  StubServer server([&](Peer& peer) {
    if (!is_first.exchange(false)) return peer.hang_up();  // none that would take its place
    if (!peer.greet()) return;
    const auto request = peer.next();
    if (!request) return;
    peer.send(admitted(*request));
    auto surplus = admitted(*request);
    surplus.tag += 1;
    peer.send(surplus);
    peer.wait_for_end();
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  (void)client->take(kLimit, "k");  // answered, or already ended by the surplus in the same segment
  // The surplus bears the tag of the next call. If it was read before that call was sent it is an
  // error; read later, it cannot be told from its answer, and the call may succeed once.
  (void)client->take(kLimit, "k");
  CHECK_FALSE(client->take(kLimit, "k", {.deadline = 100ms}).has_value());
}

TEST_CASE("no bytes from the peer crash the client") {
  // Random bytes, and answers with a few bytes changed: every call returns.
  Random random(7);
  for (int round = 0; round < 100; ++round) {
    const std::uint64_t stream = random.next();
    StubServer server([&](Peer& peer) {
      Random noise(stream);
      if (!noise.one_in(4) && !peer.greet()) return;
      for (int i = 0; i < 20; ++i) {
        const auto request = peer.next();
        if (!request) return;
        auto bytes = to_bytes(admitted(*request));
        if (noise.one_in(8)) {
          bytes.resize(noise.below(3000));
          for (std::byte& byte : bytes) byte = static_cast<std::byte>(noise.below(256));
        } else if (noise.one_in(2)) {
          bytes[noise.below(bytes.size())] = static_cast<std::byte>(noise.below(256));
        }
        peer.send(bytes);
      }
    });
    auto options = patient();
    options.connect_timeout = 10ms;
    auto client = Client::connect(server.address(), options);
    if (!client) continue;
    for (int i = 0; i < 20; ++i) (void)client->take(kLimit, "k", {.deadline = 5ms});
  }
}
