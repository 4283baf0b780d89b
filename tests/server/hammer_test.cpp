// Concern: one key, hammered from 64 connections over several shards: exactly its budget.
// Method: paild as users run it, over each backend; 4 threads that pipeline on 16 connections each.
// Every admitted take leaves another remainder, so all of them together must be 999 down to 0.
#include <algorithm>
#include <latch>
#include <numeric>
#include <thread>

#include "tests/server/serving.hpp"

namespace pail::test {
namespace {

constexpr std::uint32_t kBurst = 1000;
constexpr std::size_t kThreads = 4;
constexpr std::size_t kConnections = 64 / kThreads;  // a thread
constexpr std::uint32_t kPipeline = 32;
constexpr int kRounds = 25;

struct Hammered {
  std::vector<std::uint32_t> remainders;  // of the admitted takes
  std::size_t refused = 0;
  std::string fault;  // what was wrong with a reply or a connection
};

Octets takes_of(std::uint32_t count) {
  Octets bytes;
  for (std::uint32_t tag = 1; tag <= count; ++tag) {
    protocol::Request take = slow_take(tag, "the one key", kBurst);
    take.inline_limit.count = 1;  // a day: nothing comes back during the test
    bytes = joined(std::move(bytes), request_bytes(take));
  }
  return bytes;
}

void count_reply(const protocol::Reply& reply, Hammered& result) {
  if (reply.status == protocol::Status::ok) {
    result.remainders.push_back(reply.remaining);
  } else if (reply.status == protocol::Status::denied && reply.remaining == 0 &&
             reply.wait_ns > 0) {
    ++result.refused;
  } else {
    result.fault = "neither admitted nor refused: " + std::string(name(reply.status));
  }
}

// The first take, alone. It writes the word by its shard's reading of the clock, and a shard whose
// reading is older would truthfully tell one token less; all readings of the hammering are later.
Hammered take_once(const Serving& paild) {
  Hammered result;
  auto client = paild.greeted();
  if (!client || !client->send(takes_of(1))) {
    result.fault = "no connection";
  } else if (const auto reply = client->reply()) {
    count_reply(*reply, result);
  } else {
    result.fault = "no reply";
  }
  return result;
}

Hammered hammer(const Serving& paild, std::latch& start) {
  Hammered result;
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < kConnections; ++i) {
    auto client = paild.greeted();
    if (client) clients.push_back(std::move(*client));
  }
  if (clients.size() < kConnections) result.fault = "a connection is missing";
  const Octets takes = takes_of(kPipeline);
  start.arrive_and_wait();
  for (int round = 0; round < kRounds && result.fault.empty(); ++round) {
    for (RawClient& client : clients) {
      if (!client.send(takes)) result.fault = "closed while sending";
    }
    for (RawClient& client : clients) {
      for (std::uint32_t tag = 1; tag <= kPipeline && result.fault.empty(); ++tag) {
        const auto reply = client.reply();
        if (!reply || reply->tag != tag) {
          result.fault = "reply " + std::to_string(tag) + " is missing";
        } else {
          count_reply(*reply, result);
        }
      }
    }
  }
  return result;
}

TEST_CASE("of one key hammered over several shards exactly the budget is admitted") {
  for (const char* io : {"uring", "epoll"}) {
    CAPTURE(io);
    Serving paild(io, 4);
    std::latch start(kThreads);
    std::vector<Hammered> results(kThreads);
    const Hammered first = take_once(paild);
    std::vector<std::thread> threads;
    for (Hammered& result : results) {
      threads.emplace_back([&] { result = hammer(paild, start); });
    }
    for (std::thread& thread : threads) thread.join();
    results.push_back(first);

    std::vector<std::uint32_t> remainders;
    std::size_t refused = 0;
    for (const Hammered& result : results) {
      CHECK(result.fault == "");
      refused += result.refused;
      remainders.insert(remainders.end(), result.remainders.begin(), result.remainders.end());
    }
    CHECK(remainders.size() == kBurst);
    CHECK(remainders.size() + refused == 1 + kThreads * kConnections * kPipeline * kRounds);
    std::sort(remainders.begin(), remainders.end());
    std::vector<std::uint32_t> expected(kBurst);
    std::iota(expected.begin(), expected.end(), 0U);
    CHECK(remainders == expected);
    CHECK(paild.end() == 0);
  }
}

}  // namespace
}  // namespace pail::test
