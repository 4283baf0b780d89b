// Concern: a server that is away, or out of its mind, never becomes the caller's outage: the
// failure policy decides, says so, and is counted; a server that hangs is not waited for again and
// again; the connection comes back by itself. Method: a scripted server, and
// tests/client/outage_test.cpp for a real one.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <pail/client.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/fixture.hpp"

using namespace std::chrono_literals;
using namespace pail::test;
using pail::Client;
using pail::Decision;
using pail::ErrorCode;
using pail::OnFailure;
using pail::protocol::Op;
using pail::protocol::Status;

namespace {

const pail::Limit kPolicy = pail::Limit::policy("api");

// Nothing listens there.
std::string vacant_address() {
  return StubServer(answer_everything).address();
}

Client without_server(OnFailure on_failure, const std::string& address = vacant_address()) {
  auto options = patient();
  options.must_connect = false;
  options.on_failure = on_failure;
  options.local_gateways = 4;
  auto client = Client::connect(address, options);
  REQUIRE(client.has_value());
  return std::move(*client);
}

Decision decided(const pail::Result<Decision>& decision) {
  REQUIRE(decision.has_value());
  return *decision;
}

}  // namespace

TEST_CASE(
    "without a server the failure policy decides, of the client or of the call, and says so") {
  Client client = without_server(OnFailure::open);
  const Decision open = decided(client.take(kLimit, "k", {.cost = 7}));
  CHECK(open.admitted());
  CHECK(open.granted == 7);
  CHECK(open.source == Decision::Source::fallback_open);
  CHECK(open.is_fallback());
  CHECK(open.failure.has_value());

  const Decision closed = decided(client.take(kLimit, "k", {.on_failure = OnFailure::closed}));
  CHECK(closed.status == Decision::Status::denied);
  CHECK(closed.source == Decision::Source::fallback_closed);
  CHECK(closed.retry_after > 0ns);
  CHECK(closed.granted == 0);

  CHECK_FALSE(client.take(kLimit, "k", {.on_failure = OnFailure::report}).has_value());

  const auto counters = client.counters();
  CHECK(counters.fallback_open == 1);
  CHECK(counters.fallback_closed == 1);
  CHECK(counters.server_decisions == 0);
  CHECK(counters.connects == 0);
  CHECK(counters.failed_connects >= 1);
  CHECK_FALSE(client.usable());
}

TEST_CASE("a client that must connect says why it cannot; a wrong address is wrong in any case") {
  auto options = patient();
  CHECK(Client::connect(vacant_address(), options).error().code == ErrorCode::connection_refused);
  options.must_connect = false;
  CHECK(Client::connect("nonsense", options).error().code == ErrorCode::bad_argument);
}

TEST_CASE("a share of the limit is granted locally, where its numbers are known") {
  Client client = without_server(OnFailure::local);
  const auto slow = pail::Limit::rate(1, 24h, 20);  // a quarter: 5
  for (int i = 0; i < 5; ++i) {
    const Decision decision = decided(client.take(slow, "k"));
    CHECK(decision.admitted());
    CHECK(decision.source == Decision::Source::fallback_local);
    CHECK(decision.limit == 5);
    CHECK(decision.remaining == static_cast<std::uint32_t>(4 - i));
  }
  const Decision refused = decided(client.take(slow, "k"));
  CHECK(refused.status == Decision::Status::denied);
  CHECK(refused.source == Decision::Source::fallback_local);
  CHECK(refused.retry_after > 47h);  // a token in 4 days
  CHECK(decided(client.take(slow, "other")).admitted());

  CHECK(decided(client.take(kPolicy, "k")).source == Decision::Source::fallback_closed);
  const auto known = kPolicy.with_numbers(1, 24h, 4);
  CHECK(decided(client.take(known, "k")).admitted());
  CHECK_FALSE(decided(client.take(known, "k")).admitted());
  CHECK(decided(client.acquire(known, "k")).source == Decision::Source::fallback_closed);
  const auto counters = client.counters();
  CHECK(counters.fallback_local_admitted == 7);
  CHECK(counters.fallback_local_refused == 2);
  CHECK(counters.fallback_closed == 2);
}

TEST_CASE("layers fall back together") {
  Client client = without_server(OnFailure::local);
  const auto wide = pail::Limit::policy("wide").with_numbers(1, 24h, 40);
  const auto narrow = pail::Limit::policy("narrow").with_numbers(1, 24h, 8);
  const std::array<pail::Layer, 2> layers{{{wide, "k", 1}, {narrow, "k", 1}}};
  for (int i = 0; i < 2; ++i) CHECK(client.take_all(layers)->admitted());
  CHECK_FALSE(client.take_all(layers)->admitted());
  CHECK(client.take_all(layers)->decision.source == Decision::Source::fallback_local);
  // What the refused ones found in the wide layer is still there: 10 less the two admitted.
  CHECK(client.take(wide, "k")->remaining == 7);
  CHECK(client.take_all(layers, {.on_failure = OnFailure::open})->decision.granted == 2);
}

TEST_CASE("what a fallback let through has nothing to give back") {
  Client client = without_server(OnFailure::open);
  const Decision permit = decided(client.acquire(kPolicy, "k"));
  CHECK(permit.admitted());
  CHECK(permit.grant == 0);
  CHECK(decided(client.renew(kPolicy, "k", permit.grant)).admitted());
  CHECK(decided(client.release(kPolicy, "k", permit.grant)).granted == 0);
  const Decision estimate = decided(client.take(kPolicy, "k", {.cost = 9, .settle_later = true}));
  CHECK(decided(client.settle(kPolicy, "k", estimate.grant, 5)).granted == 5);
}

TEST_CASE("what a server decides on purpose, and what is wrong, is no failure") {
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      auto reply = admitted(*request);
      reply.status = static_cast<Status>(request->cost);
      peer.send(reply);
    }
  });
  auto options = patient();
  options.on_failure = OnFailure::open;
  auto client = Client::connect(server.address(), options);
  REQUIRE(client.has_value());
  const auto ask = [&](Status status) {
    return client->take(kLimit, "k", {.cost = static_cast<std::uint32_t>(status)});
  };
  CHECK(decided(ask(Status::denied)).source == Decision::Source::server);
  CHECK(code_of(ask(Status::table_full)) == ErrorCode::table_full);
  CHECK(code_of(ask(Status::unknown_policy)) == ErrorCode::unknown_policy);
  CHECK(code_of(ask(Status::bad_request)) == ErrorCode::bad_argument);
  CHECK(code_of(ask(Status::not_supported)) == ErrorCode::not_supported);
  CHECK(code_of(client->take(kLimit, "")) == ErrorCode::bad_argument);
  const Decision overloaded = decided(ask(Status::overloaded));
  CHECK(overloaded.source == Decision::Source::fallback_open);
  CHECK(overloaded.failure == ErrorCode::overloaded);
  CHECK(client->counters().server_decisions == 1);
  CHECK(client->counters().fallback_open == 1);
}

// Whoever finds the connection gone waits for the one attempt that is made, and none fails for want
// of being the one who connects.
TEST_CASE("all callers get over to the new connection, none is turned away meanwhile") {
  constexpr int kThreads = 8;
  std::atomic<int> connections{0};
  StubServer server([&](Peer& peer) {
    const bool is_first = ++connections == 1;
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      peer.send(admitted(*request));
      if (is_first) return peer.hang_up();
    }
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  REQUIRE(client->take(kLimit, "k").has_value());
  // The end may reach a call that was sent: then its fate is unknown, and it fails. Not later ones.
  while (client->usable()) (void)client->ping();
  std::atomic<int> answered{0};
  std::latch together(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      together.arrive_and_wait();
      if (client->take(kLimit, "k")) ++answered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == kThreads);
  CHECK(connections == 2);
}

TEST_CASE("a server that hangs opens the circuit, and closes it when it answers again") {
  std::atomic<bool> is_hanging{false};
  std::atomic<int> pings{0};
  std::atomic<int> takes{0};
  StubServer server([&](Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      ++(request->op == Op::ping ? pings : takes);
      while (is_hanging) std::this_thread::yield();
      peer.send(admitted(*request));
    }
  });
  auto options = patient();
  options.deadline = 20ms;
  options.circuit_timeouts = 3;
  options.on_failure = OnFailure::open;
  auto client = Client::connect(server.address(), options);
  REQUIRE(client.has_value());
  is_hanging = true;
  // A hurried call says nothing about the server.
  for (int i = 0; i < 5; ++i) {
    CHECK(decided(client->take(kLimit, "k", {.deadline = 1ms})).failure == ErrorCode::timeout);
  }
  for (int i = 0; i < 3; ++i) {
    CHECK(decided(client->take(kLimit, "k")).failure == ErrorCode::timeout);
  }
  CHECK(client->counters().circuit_opened == 1);
  CHECK_FALSE(client->usable());
  for (int i = 0; i < 1000; ++i) {
    CHECK(decided(client->take(kLimit, "k")).failure == ErrorCode::circuit_open);
  }
  is_hanging = false;
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (decided(client->take(kLimit, "k")).source != Decision::Source::server) {
    REQUIRE(std::chrono::steady_clock::now() < give_up);
  }
  CHECK(pings >= 1);
  CHECK(client->usable());
  // Half-open is over: it takes three again.
  is_hanging = true;
  CHECK(decided(client->take(kLimit, "k")).failure == ErrorCode::timeout);
  CHECK(client->usable());
  is_hanging = false;
}

TEST_CASE("half-open, one more timeout is enough") {
  std::atomic<int> takes{0};
  StubServer server([&](Peer& peer) {  // greets, answers PING, and nothing else
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      if (request->op != Op::ping) {
        ++takes;
        if (peer.arrived() == 0) continue;
      }
      peer.send(admitted(*request));
    }
  });
  auto options = patient();
  options.deadline = 5ms;
  options.connect_timeout = 80ms;  // a PING behind an unanswered take is out of order, or late
  options.circuit_timeouts = 3;
  options.on_failure = OnFailure::open;
  options.must_connect = false;
  auto client = Client::connect(server.address(), options);
  REQUIRE(client.has_value());
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (client->counters().circuit_opened < 4) {
    CHECK(decided(client->take(kLimit, "k")).source == Decision::Source::fallback_open);
    REQUIRE(std::chrono::steady_clock::now() < give_up);
  }
  // Three to open it first, then one each time; a call may meet the end of its connection instead.
  CHECK(takes <= 3 + 3 + static_cast<int>(client->counters().connects));
}

TEST_CASE("a client that is being connected goes at once") {
  // The peer accepts and never greets; the attempt has a quarter of 20 s.
  std::atomic<int> connections{0};
  StubServer server([&](Peer& peer) {
    if (++connections == 1) {
      if (peer.greet()) return peer.hang_up();
      return;
    }
    peer.wait_for_end();
  });
  const auto start = std::chrono::steady_clock::now();
  {
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    while (connections < 2) (void)client->take(kLimit, "k", {.deadline = 1ms});
  }
  CHECK(std::chrono::steady_clock::now() - start < kPatience / 4);
}
