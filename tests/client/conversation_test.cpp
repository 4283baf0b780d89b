// What the client says and understands: requests, decisions, errors, the greeting, the server's
// notices. Method: a scripted server that says one of each.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <pail/client.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/fixture.hpp"

using namespace std::chrono_literals;
using namespace pail::test;
using pail::Client;
using pail::ErrorCode;
using pail::protocol::Op;
using pail::protocol::Status;

TEST_CASE("what the caller says is what the server reads") {
  std::vector<ReceivedRequest> seen;
  std::string name;
  std::string token;
  {
    StubServer server([&](Peer& peer) {
      if (!peer.greet()) return;
      name = peer.client_name();
      token = peer.token();
      while (const auto request = peer.next()) {
        seen.push_back(*request);
        peer.send(admitted(*request));
      }
    });
    auto options = patient();
    options.name = "gateway-1";
    options.token = "s3cret";
    auto client = Client::connect(server.address(), options);
    REQUIRE(client.has_value());
    const std::string key("a\0b\xff", 4);
    CHECK(client->take(kLimit, key, {.cost = 7, .priority = 3, .partial = true}).has_value());
    CHECK(client->peek(pail::Limit::policy("api"), "k", {.cost = 2}).has_value());
    CHECK(client->reset(kLimit, "k").has_value());
    CHECK(client->ping().has_value());
  }
  CHECK(name == "gateway-1");
  CHECK(token == "s3cret");
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].op == Op::take);
  CHECK(seen[0].key_text == std::string("a\0b\xff", 4));
  CHECK(seen[0].cost == 7);
  CHECK(seen[0].priority == 3);
  CHECK(seen[0].partial);
  CHECK(seen[0].has_inline_limit);
  CHECK(seen[0].inline_limit == pail::protocol::InlineLimit{1'000'000'000, 10, 20});
  CHECK(seen[0].expires_us != 0);
  CHECK(seen[1].op == Op::peek);
  CHECK(seen[1].policy == pail::protocol::policy_id("api"));
  CHECK(seen[1].cost == 2);
  CHECK(seen[2].op == Op::reset);
  CHECK(seen[3].op == Op::ping);
  CHECK(seen[3].expires_us == 0);
}

TEST_CASE("what the server answers is what the caller reads") {
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      auto reply = admitted(*request);
      reply.status = static_cast<Status>(request->cost - 1);
      reply.granted = 1;
      reply.remaining = 2;
      reply.limit = 3;
      reply.wait_ns = reply.status == Status::never ? pail::protocol::kWaitForever : 4;
      reply.reset_ns = 5;
      if (!pail::protocol::is_decision(reply.status)) {
        reply.body = pail::protocol::as_body("because of the script");
      }
      peer.send(reply);
    }
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  const auto ask = [&](Status status) {
    return client->take(kLimit, "k", {.cost = static_cast<std::uint32_t>(status) + 1});
  };

  const auto yes = ask(Status::ok);
  REQUIRE(yes.has_value());
  CHECK(yes->admitted());
  CHECK(yes->granted == 1);
  CHECK(yes->remaining == 2);
  CHECK(yes->limit == 3);
  CHECK(yes->hold == 4ns);
  CHECK(yes->retry_after == 0ns);
  CHECK(yes->reset_after == 5ns);

  const auto no = ask(Status::denied);
  REQUIRE(no.has_value());
  CHECK(no->status == pail::Decision::Status::denied);
  CHECK(no->retry_after == 4ns);
  CHECK(no->hold == 0ns);
  CHECK(ask(Status::shed)->status == pail::Decision::Status::shed);
  const auto never = ask(Status::never);
  REQUIRE(never.has_value());
  CHECK(never->status == pail::Decision::Status::never);
  CHECK(never->retry_after == pail::Decision::kForever);

  CHECK(code_of(ask(Status::table_full)) == ErrorCode::table_full);
  CHECK(code_of(ask(Status::unknown_policy)) == ErrorCode::unknown_policy);
  CHECK(code_of(ask(Status::bad_request)) == ErrorCode::bad_argument);
  CHECK(code_of(ask(Status::unauthorized)) == ErrorCode::unauthorized);
  CHECK(code_of(ask(Status::overloaded)) == ErrorCode::overloaded);
  CHECK(code_of(ask(Status::not_supported)) == ErrorCode::not_supported);
  CHECK(code_of(ask(Status::expired)) == ErrorCode::timeout);
  CHECK(ask(Status::bad_request).error().text.find("because of the script") != std::string::npos);
  const auto unknown =
      client->take(pail::Limit::policy("no-such"), "k",
                   {.cost = static_cast<std::uint32_t>(Status::unknown_policy) + 1});
  CHECK(unknown.error().text.find("no-such") != std::string::npos);
  CHECK_FALSE(unknown.error().maybe_charged);
  CHECK(client->usable());
}

TEST_CASE("a call that is wrong is told so without a round trip") {
  StubServer server(answer_everything);
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  CHECK(code_of(client->take(kLimit, "")) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(kLimit, std::string(1025, 'k'))) == ErrorCode::bad_argument);
  CHECK(client->take(kLimit, std::string(1024, 'k')).has_value());
  CHECK(code_of(client->take(kLimit, "k", {.cost = 0})) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(kLimit, "k", {.priority = 4})) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(kLimit, "k", {.deadline = 0ns})) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(kLimit, "k", {.deadline = -1s})) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(kLimit, "k", {.deadline = 2h})) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(pail::Limit::rate(0, 1s, 1), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(pail::Limit::rate(1, 0s, 1), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(pail::Limit::rate(1, 1s, 0), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(client->take(pail::Limit::rate(1, 367 * 24h, 1), "k")) == ErrorCode::bad_argument);

  auto options = patient();
  options.max_in_flight = 0;
  CHECK(Client::connect(server.address(), options).error().code == ErrorCode::bad_argument);
  options = patient();
  options.name = "two\nlines";
  CHECK(Client::connect(server.address(), options).error().code == ErrorCode::bad_argument);
  options = patient();
  options.tcp_congestion = "no-such-algorithm";
  CHECK(Client::connect(server.address(), options).error().code == ErrorCode::bad_argument);
  CHECK(Client::connect("nonsense", patient()).error().code == ErrorCode::bad_argument);
}

TEST_CASE("connecting fails with the reason") {
  std::string address;
  { address = StubServer(answer_everything).address(); }
  CHECK(Client::connect(address, patient()).error().code == ErrorCode::connection_refused);
  CHECK(Client::connect("unix:/nowhere/pail.sock", patient()).error().code ==
        ErrorCode::unreachable);

  SUBCASE("the peer speaks HTTP") {
    StubServer server([](Peer& peer) { peer.send_text("HTTP/1.1 400 Bad Request\r\n\r\n"); });
    CHECK(Client::connect(server.address(), patient()).error().code == ErrorCode::protocol_error);
  }
  SUBCASE("the peer closes at once") {
    StubServer server([](Peer& peer) { peer.hang_up(); });
    CHECK(Client::connect(server.address(), patient()).error().code == ErrorCode::closed);
  }
  SUBCASE("the peer never answers") {
    StubServer server([](Peer& peer) { peer.wait_for_end(); });
    auto options = patient();
    options.connect_timeout = 20ms;
    CHECK(Client::connect(server.address(), options).error().code == ErrorCode::timeout);
  }
  SUBCASE("the peer speaks another version") {
    StubServer server([](Peer& peer) {
      pail::protocol::HelloReply refusal;
      refusal.status = Status::bad_request;
      refusal.version = 9;
      refusal.error = "too old";
      peer.greet(refusal);
    });
    const auto client = Client::connect(server.address(), patient());
    CHECK(client.error().code == ErrorCode::version_mismatch);
    CHECK(client.error().text.find("version 9") != std::string::npos);
  }
  SUBCASE("the server wants a token") {
    StubServer server([](Peer& peer) {
      pail::protocol::HelloReply refusal;
      refusal.status = Status::unauthorized;
      peer.greet(refusal);
    });
    CHECK(Client::connect(server.address(), patient()).error().code == ErrorCode::unauthorized);
  }
}

TEST_CASE("a draining server still answers what is in flight") {
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    const auto request = peer.next();
    if (!request) return;
    pail::protocol::Reply goaway;
    goaway.op = Op::goaway;
    peer.send(goaway);
    peer.send(admitted(*request));
    peer.wait_for_end();
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  CHECK(client->take(kLimit, "k").has_value());
  CHECK(client->usable());  // by a connection of its next call
}

// The first connections say goodbye, the later ones serve.
TEST_CASE("a server that says goodbye is left for the one that took its place") {
  for (const bool is_idle : {false, true}) {
    std::atomic<int> connections{0};
    std::atomic<int> ended{0};
    StubServer server([&](Peer& peer) {
      const int number = ++connections;
      if (!peer.greet()) return;
      pail::protocol::Reply goaway;
      goaway.op = Op::goaway;
      while (const auto request = peer.next()) {
        if (number == 1 && !is_idle) peer.send(goaway);
        peer.send(admitted(*request));
        if (number == 1 && is_idle) {
          peer.send(goaway);  // heard by nobody until the next call
          peer.hang_up();
          break;
        }
      }
      ++ended;
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    CHECK(client->take(kLimit, "k").has_value());
    // Both, goodbye and end, have arrived before the next call; it is told nothing of them.
    while (is_idle && ended == 0) std::this_thread::yield();
    std::this_thread::yield();
    const auto quiet_until = std::chrono::steady_clock::now() + 20ms;
    while (std::chrono::steady_clock::now() < quiet_until) std::this_thread::yield();
    for (int i = 0; i < 5; ++i) CHECK(client->take(kLimit, "k").has_value());
    CHECK(connections == 2);
    CHECK(client->usable());
    client->close();
    CHECK_FALSE(client->usable());
    CHECK(code_of(client->take(kLimit, "k")) == ErrorCode::closed);
  }
}

TEST_CASE("where nobody took its place, calls say so, unsent, and attempts have pauses") {
  std::atomic<int> connections{0};
  StubServer server([&](Peer& peer) {
    if (++connections > 1) return peer.hang_up();
    if (!peer.greet()) return;
    const auto request = peer.next();
    if (!request) return;
    pail::protocol::Reply goaway;
    goaway.op = Op::goaway;
    peer.send(goaway);
    peer.send(admitted(*request));
    peer.wait_for_end();
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  CHECK(client->take(kLimit, "k").has_value());
  const auto start = std::chrono::steady_clock::now();
  int calls = 0;
  while (calls < 2000) {
    const auto result = client->take(kLimit, "k");
    ++calls;
    CHECK(code_of(result) == ErrorCode::closed);
    CHECK_FALSE(result.error().maybe_charged);
  }
  const auto pauses = (std::chrono::steady_clock::now() - start) / 50ms;
  CHECK(connections <= pauses + 2);
}

// Each connection is greeted and ends at the first request: so does a server in a crash loop.
TEST_CASE("a server that dies again and again is not hammered, and nothing is asked twice") {
  std::atomic<int> connections{0};
  std::atomic<int> requests{0};
  int maybe_charged = 0;
  std::chrono::steady_clock::duration time{};
  {
    StubServer server([&](Peer& peer) {
      ++connections;
      if (peer.greet() && peer.next()) ++requests;
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    const auto start = std::chrono::steady_clock::now();
    for (int calls = 0; calls < 2000; ++calls) {
      const auto result = client->take(kLimit, "k");
      REQUIRE_FALSE(result.has_value());
      maybe_charged += result.error().maybe_charged;
    }
    time = std::chrono::steady_clock::now() - start;
  }
  CHECK(connections >= 2);
  CHECK(connections <= time / 50ms + 2);
  CHECK(requests <= maybe_charged);
}

TEST_CASE("`expired` while the caller still waits is asked again, once, without a deadline") {
  std::vector<bool> had_deadline;
  {
    StubServer server([&](Peer& peer) {
      if (!peer.greet()) return;
      while (const auto request = peer.next()) {
        had_deadline.push_back(request->expires_us != 0);
        auto reply = admitted(*request);
        if (request->expires_us != 0) reply.status = Status::expired;
        peer.send(reply);
      }
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    CHECK(client->take(kLimit, "k").has_value());
    CHECK(client->take(kLimit, "k").has_value());
  }
  CHECK(had_deadline == std::vector<bool>{true, false, false});
}
