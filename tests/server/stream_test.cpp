// Concern: bytes arrive in any pieces, over any number of connections, and every request is
// answered once, in order, on its own connection. Method: a stream cut at every byte; receive
// chunks smaller than a frame; many connections that each can tell their replies from everybody
// else's.
#include <unistd.h>

#include <thread>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using protocol::Status;
using server::ShardCount;

constexpr std::uint32_t kRequests = 4;

Octets conversation(std::string_view key) {
  Octets bytes = hello_bytes();
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    bytes = joined(std::move(bytes), request_bytes(slow_take(100 + i, key, 3)));
  }
  return bytes;
}

// Of conversation(): three admitted and one refused.
void check_answers(RawClient& client) {
  const auto hello = client.frame();
  REQUIRE(hello);
  CHECK(protocol::decode_hello_reply(*hello)->status == Status::ok);
  for (std::uint32_t i = 0; i < kRequests; ++i) {
    const auto reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->tag == 100 + i);
    CHECK(reply->status == (i < 3 ? Status::ok : Status::denied));
    CHECK(reply->remaining == (i < 3 ? 2 - i : 0));
  }
}

TEST_CASE("frames may be cut anywhere") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    const std::size_t size = conversation("key-0000").size();
    std::uint64_t received = 0;
    for (std::size_t cut = 1; cut < size; ++cut) {
      char key[16];
      std::snprintf(key, sizeof key, "key-%04u", static_cast<unsigned>(cut));
      const Octets bytes = conversation(key);
      RawClient client = server.connect();
      REQUIRE(client.send(protocol::Bytes(bytes).first(cut)));
      REQUIRE(server.has_received(received + cut));  // so the rest makes a chunk of its own
      REQUIRE(client.send(protocol::Bytes(bytes).subspan(cut)));
      check_answers(client);
      received += size;
    }
    CHECK(server->count(frontend::NativeCount::malformed) == 0);
  }
}

TEST_CASE("frames may come byte by byte") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.connect();
    std::uint64_t received = 0;
    for (const std::byte byte : conversation("alice")) {
      REQUIRE(client.send(protocol::Bytes(&byte, 1)));
      REQUIRE(server.has_received(++received));
    }
    check_answers(client);
  }
}

// A burst of requests on `count` keys, each with its own tag; answered in order.
void exchange(RawClient& client, std::uint32_t count, std::size_t key_bytes) {
  Octets bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::string key = std::to_string(i) + "/" + std::to_string(key_bytes);
    key.resize(key_bytes, 'k');
    bytes = joined(std::move(bytes), request_bytes(slow_take(i + 1, key, i + 10)));
  }
  std::thread sender([&] { client.send(bytes); });
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto reply = client.reply();
    CHECK(reply);
    if (!reply) break;
    CHECK(reply->tag == i + 1);
    CHECK(reply->status == Status::ok);
    CHECK(reply->limit == i + 10);
    CHECK(reply->remaining == i + 9);
  }
  sender.join();
}

TEST_CASE("frames longer than a receive chunk, and chunks that run out") {
  for (const auto io : kBackends) {
    for (const std::uint32_t chunk_bytes : {16u, 64u, 1000u}) {
      auto config = local_config(io);
      config.limits.io.chunk_bytes = chunk_bytes;
      config.limits.io.chunks = 2;
      config.limits.tick_ms = 10;
      TestServer server(config);
      RawClient client = server.greeted();
      exchange(client, 500, 200);
      RawClient other = server.greeted();
      exchange(other, 500, 1000);
      CHECK(server->connections() == 2);
      if (io == server::IoChoice::uring) {
        CHECK(eventually([&] { return server->count(ShardCount::out_of_chunks) > 0; }));
      }
    }
  }
}

TEST_CASE("a long pipeline keeps its order across many chunks") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.greeted();
    exchange(client, 4000, 300);
  }
}

// Each connection has a key, a burst and tags of its own, so a reply that strayed would be seen.
TEST_CASE("no reply ever carries another's") {
  constexpr std::uint32_t kConnections = 100;
  constexpr std::uint32_t kRounds = 20;
  for (const auto io : kBackends) {
    for (const unsigned shards : {1u, 3u}) {
      auto config = local_config(io, shards);
      config.limits.io.chunks = 4;  // chunks change hands all the time
      TestServer server(config);
      Random random;
      std::vector<RawClient> clients;
      std::vector<std::uint32_t> answered(kConnections, 0);
      for (std::uint32_t i = 0; i < kConnections; ++i) clients.push_back(server.greeted());
      for (std::uint32_t round = 0; round < kRounds; ++round) {
        std::vector<std::uint32_t> bursts;
        for (std::uint32_t i = 0; i < kConnections; ++i) {
          bursts.push_back(static_cast<std::uint32_t>(random.between(1, 40)));
          Octets bytes;
          for (std::uint32_t n = 0; n < bursts[i]; ++n) {
            const std::string key(1 + i, static_cast<char>('a' + i % 26));
            const std::uint32_t tag = (i + 1) * 10'000 + answered[i] + n;
            bytes = joined(std::move(bytes), request_bytes(slow_take(tag, key, 100'000 + i)));
          }
          REQUIRE(clients[i].send(bytes));
        }
        for (std::uint32_t i = 0; i < kConnections; ++i) {
          for (std::uint32_t n = 0; n < bursts[i]; ++n, ++answered[i]) {
            const auto reply = clients[i].reply();
            REQUIRE(reply);
            REQUIRE(reply->tag == (i + 1) * 10'000 + answered[i]);
            REQUIRE(reply->limit == 100'000 + i);
            REQUIRE(reply->remaining == 100'000 + i - answered[i] - 1);
          }
        }
      }
    }
  }
}

TEST_CASE("a peer that has finished sending still gets its replies") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.connect();
    REQUIRE(client.send(conversation("half-closed")));
    client.finish_sending();
    check_answers(client);
    CHECK(client.wait_for_end());
    CHECK(eventually([&] { return server->connections() == 0; }));
  }
}

TEST_CASE("the same over IPv6 and a Unix socket") {
  for (const auto io : kBackends) {
    auto config = local_config(io, 2);
    const std::string path = "unix:/tmp/pail-stream-test." + std::to_string(::getpid()) + ".sock";
    config.listen = {*protocol::parse_address(path), *protocol::parse_address("[::1]:0")};
    TestServer server(config);
    for (const std::string& address : server->addresses()) {
      RawClient client(address);
      REQUIRE(client.send(conversation(address)));
      check_answers(client);
    }
  }
}

}  // namespace
}  // namespace pail::test
