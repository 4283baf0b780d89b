// One connection under many threads, and under servers that are slow, silent or die. What must
// hold: every call returns, with its own answer or a typed error. No test measures how long: a
// server that never answers is still silent when the call has returned.
#include <doctest/doctest.h>

#include <atomic>
#include <barrier>
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
using pail::ErrorCode;
using pail::protocol::Op;
using pail::protocol::Status;

TEST_CASE("answers may arrive in any pieces, and many in one") {
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    std::size_t cut = 0;
    while (const auto request = peer.next()) {
      // Twice the answer, cut at every place in turn; the second half is the next request's.
      const auto second = peer.next();
      if (!second) return;
      auto bytes = to_bytes(admitted(*request));
      const auto more = to_bytes(admitted(*second));
      bytes.insert(bytes.end(), more.begin(), more.end());
      cut = cut % (bytes.size() - 1) + 1;
      peer.send(pail::protocol::Bytes(bytes).first(cut));
      peer.send(pail::protocol::Bytes(bytes).subspan(cut));
    }
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  std::atomic<int> admitted_count = 0;
  const auto caller = [&](std::uint32_t cost) {
    for (int i = 0; i < 160; ++i) {
      const auto decision = client->take(kLimit, "k", {.cost = cost});
      if (decision && decision->granted == cost) ++admitted_count;
    }
  };
  std::thread one(caller, 1);
  std::thread two(caller, 2);
  one.join();
  two.join();
  CHECK(admitted_count == 320);
}

TEST_CASE("every byte of an answer may come by itself") {
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      const auto bytes = to_bytes(admitted(*request));
      for (const std::byte& byte : bytes) peer.send(pail::protocol::Bytes(&byte, 1));
    }
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  for (int i = 0; i < 20; ++i) CHECK(client->take(kLimit, "k").has_value());
}

TEST_CASE("many threads on one connection: everybody gets their own answer, and soon") {
  // A caller whom all others forgot (asleep, or reading with its own request unsent) waits until
  // somebody else calls. So the threads call in rounds and nobody calls before all have their
  // answers: whoever is forgotten stays so until the deadline, which none may see.
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      auto reply = admitted(*request);
      reply.remaining = static_cast<std::uint32_t>(std::stoul(request->key_text));
      peer.send(reply);
    }
  });
  for (const int thread_count : {2, 3, 8}) {
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    const int rounds = 6000 / thread_count;
    std::barrier round_over(thread_count);
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < thread_count; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < rounds; ++i) {
          const int secret = thread * 10'000 + i;
          const auto decision = client->take(kLimit, std::to_string(secret));
          if (!decision) break;
          if (decision->remaining == static_cast<std::uint32_t>(secret)) ++right;
          round_over.arrive_and_wait();
        }
        round_over.arrive_and_drop();
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(right == thread_count * rounds);
  }
}

TEST_CASE("calls of many threads are in flight together") {
  constexpr std::size_t kCalls = 8;
  StubServer server([](Peer& peer) {
    if (!peer.greet()) return;
    // Answers only when all eight have arrived: a client that waits for one before it sends the
    // next never gets an answer.
    std::vector<ReceivedRequest> requests;
    while (const auto request = peer.next()) {
      requests.push_back(*request);
      if (requests.size() < kCalls) continue;
      for (const auto& each : requests) peer.send(admitted(each));
      requests.clear();
    }
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  std::atomic<std::size_t> answered = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kCalls; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        if (client->take(kLimit, "k")) ++answered;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == kCalls * 50);
}

TEST_CASE("a server that never answers costs each call its deadline and nothing else") {
  StubServer server([](Peer& peer) {
    if (peer.greet()) peer.wait_for_end();
  });
  auto options = patient();
  options.max_in_flight = 4;
  auto client = Client::connect(server.address(), options);
  REQUIRE(client.has_value());
  for (int i = 0; i < 4; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const auto result = client->take(kLimit, "k", {.deadline = 5ms});
    CHECK(std::chrono::steady_clock::now() - start >= 5ms);  // not early either
    CHECK(code_of(result) == ErrorCode::timeout);
    CHECK(result.error().maybe_charged);
  }
  // Four answers are still owed: the bound holds, and says so at once.
  const auto result = client->take(kLimit, "k");
  CHECK(code_of(result) == ErrorCode::too_many_in_flight);
  CHECK_FALSE(result.error().maybe_charged);
}

TEST_CASE("a late answer goes to nobody, and the next call gets its own") {
  std::latch timed_out(1);
  StubServer server([&](Peer& peer) {
    if (!peer.greet()) return;
    const auto first = peer.next();
    timed_out.wait();
    const auto second = peer.next();
    if (!first || !second) return;
    auto late = admitted(*first);
    late.remaining = 111;
    auto prompt = admitted(*second);
    prompt.remaining = 222;
    peer.send(late);
    peer.send(prompt);
    peer.wait_for_end();
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  CHECK(code_of(client->take(kLimit, "first", {.deadline = 5ms})) == ErrorCode::timeout);
  timed_out.count_down();
  const auto second = client->take(kLimit, "second");
  REQUIRE(second.has_value());
  CHECK(second->remaining == 222);
}

TEST_CASE("a sleeper whose reader leaves takes its place") {
  // One caller reads and gives up early; the others sleep and must be served by one another.
  std::latch impatient_gone(1);
  StubServer server([&](Peer& peer) {
    if (!peer.greet()) return;
    std::vector<ReceivedRequest> requests;
    while (requests.size() < 4) {
      const auto request = peer.next();
      if (!request) return;
      requests.push_back(*request);
    }
    impatient_gone.wait();
    for (const auto& request : requests) peer.send(admitted(request));
    peer.wait_for_end();
  });
  auto client = Client::connect(server.address(), patient());
  REQUIRE(client.has_value());
  std::atomic<int> answered = 0;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    // Long enough that the others are likely to find the role taken; either way the test must pass.
    CHECK(code_of(client->take(kLimit, "impatient", {.deadline = 50ms})) == ErrorCode::timeout);
    impatient_gone.count_down();
  });
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      if (client->take(kLimit, "patient")) ++answered;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(answered == 3);
}

TEST_CASE("the end of a connection wakes everybody who waits on it") {
  const auto all_woken = [](bool by_server) {
    constexpr int kThreads = 8;
    std::latch arrived(1);
    std::atomic<bool> is_first = true;
    StubServer server([&](Peer& peer) {
      if (!is_first.exchange(false)) return peer.hang_up();
      if (!peer.greet()) return;
      for (int i = 0; i < kThreads; ++i) {
        if (!peer.next()) return;
      }
      arrived.count_down();
      if (by_server) peer.hang_up();
      peer.wait_for_end();
    });
    auto client = Client::connect(server.address(), patient());
    REQUIRE(client.has_value());
    std::atomic<int> closed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const auto result = client->take(kLimit, "k");
        if (!result && result.error().code == ErrorCode::closed && result.error().maybe_charged) {
          ++closed;
        }
      });
    }
    arrived.wait();
    if (!by_server) client->close();
    for (std::thread& thread : threads) thread.join();
    CHECK(closed == kThreads);
    CHECK_FALSE(client->usable());
    CHECK(code_of(client->take(kLimit, "k")) == ErrorCode::closed);
  };
  SUBCASE("by the server") {
    all_woken(true);
  }
  SUBCASE("by close()") {
    all_woken(false);
  }
}

TEST_CASE("a server that reads nothing: what was not sent is not charged later") {
  // The client's requests fill both socket buffers; calls time out, some unsent. When the server
  // reads at last, a TAKE among what arrives belongs to a call that was told `maybe_charged`.
  std::latch may_read(1);
  std::atomic<int> takes_read = 0;
  int maybe_charged = 0;
  {
    StubServer server([&](Peer& peer) {
      if (!peer.greet()) return;
      may_read.wait();
      while (const auto request = peer.next()) {
        if (request->op == Op::take) ++takes_read;
      }
    });
    auto options = patient();
    options.max_in_flight = 65'536;
    auto client = Client::connect(server.address(), options);
    REQUIRE(client.has_value());
    const std::string key(1024, 'k');
    // Loopback buffers hold some megabytes; the bound on the loop is for a machine whose hold more.
    int unsent = 0;
    for (int i = 0; i < 65'000 && unsent < 500; ++i) {
      const auto result = client->take(kLimit, key, {.deadline = 1us});
      REQUIRE(code_of(result) == ErrorCode::timeout);
      ++(result.error().maybe_charged ? maybe_charged : unsent);
    }
    CHECK(unsent > 0);
    may_read.count_down();
    CHECK(code_of(client->ping({.deadline = 100ms}).map([](auto) { return pail::Decision{}; })) ==
          ErrorCode::timeout);
  }
  CHECK(takes_read <= maybe_charged);
}
