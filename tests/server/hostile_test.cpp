// Concern: what a peer does wrong, or not at all, costs its own connection and nothing else.
// Method: raw bytes, small limits, and a healthy client afterwards.
#include <thread>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using frontend::NativeCount;
using protocol::Status;
using server::ShardCount;

TEST_CASE("an HTTP request is told what this port speaks, and closed") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.connect();
    REQUIRE(client.send("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: curl/7.88.1\r\n\r\n"));
    const auto answer = client.frame();
    REQUIRE(answer);
    const auto refusal = protocol::decode_hello_reply(*answer);
    REQUIRE(refusal);
    CHECK(refusal->status == Status::bad_request);
    CHECK(refusal->error.find("HELLO") != std::string_view::npos);
    CHECK(client.wait_for_end());
    CHECK(server->count(NativeCount::refused_hello) == 1);
    CHECK(server->count(NativeCount::frames) == 0);
    CHECK(server.is_healthy());
  }
}

TEST_CASE("a megabyte of random bytes is closed at once and nothing is admitted") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    Random random;
    Octets noise(1 << 20);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
    RawClient client = server.connect();
    client.send(noise);
    CHECK(client.wait_for_end());
    CHECK(eventually([&] { return server->connections() == 0; }));
    CHECK(server->count(NativeCount::frames) == 0);
    CHECK(server->count(NativeCount::refused_hello) == 1);
    CHECK(server.is_healthy());
  }
}

// What comes after the wrong frame must not be looked at: a take behind it takes nothing.
TEST_CASE("nothing behind a malformed frame is interpreted") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    const Octets good = request_bytes(slow_take(5, "victim", 10));
    Octets broken = good;
    broken[22] = std::byte{1};  // a reserved byte
    RawClient client = server.greeted();
    REQUIRE(client.send(joined(joined(good, broken), good)));
    auto reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->status == Status::ok);
    CHECK(reply->remaining == 9);
    reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->status == Status::bad_request);
    CHECK(reply->tag == 5);
    CHECK_FALSE(reply->body.empty());
    CHECK_FALSE(client.frame());
    CHECK(client.has_ended());
    CHECK(server->count(NativeCount::malformed) == 1);

    RawClient next = server.greeted();
    REQUIRE(next.send(good));
    reply = next.reply();
    REQUIRE(reply);
    CHECK(reply->remaining == 8);
  }
}

TEST_CASE("the first frame must be HELLO, also where it is a good request") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.connect();
    REQUIRE(client.send(request_bytes(slow_take(5, "eager", 10))));
    CHECK(client.frame());
    CHECK(client.wait_for_end());
    CHECK(server->count(NativeCount::frames) == 0);
    CHECK(server->count(NativeCount::refused_hello) == 1);
  }
}

TEST_CASE("a peer that says nothing is closed after the HELLO timeout") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.hello_timeout_ms = 100;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient greeted = server.greeted();
    RawClient silent = server.connect();
    RawClient slow = server.connect();
    REQUIRE(slow.send(protocol::Bytes(hello_bytes()).first(7)));
    CHECK(silent.wait_for_end());
    CHECK(slow.wait_for_end());
    CHECK(server->count(ShardCount::hello_timeouts) == 2);
    CHECK_FALSE(greeted.has_ended());
  }
}

// Sends takes and reads nothing until the server stops reading too; then reads all that it is owed.
TEST_CASE("a peer that does not read is bounded, and loses nothing when it reads again") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.reply_window_bytes = 64 * 1024;
    config.limits.reply_memory_bytes = 4 * 1024 * 1024;
    config.limits.reply_reserve_bytes = 1024 * 1024;
    TestServer server(config);
    RawClient stuck = server.greeted({.receive_buffer_bytes = 4096});

    std::uint32_t tag = 0;
    Octets batch;
    std::size_t batch_sent = 0;
    const auto push = [&] {
      if (batch_sent == batch.size()) {
        batch.clear();
        batch_sent = 0;
        for (int i = 0; i < 100; ++i) {
          batch = joined(std::move(batch), request_bytes(slow_take(++tag, "stuck", 1'000'000)));
        }
      }
      batch_sent += stuck.send_some(protocol::Bytes(batch).subspan(batch_sent));
    };
    REQUIRE(eventually([&] {
      push();
      return server->count(ShardCount::read_stops) > 0;
    }));
    CHECK(server.is_healthy());

    std::thread sender([&] { stuck.send(protocol::Bytes(batch).subspan(batch_sent)); });
    for (std::uint32_t expected = 1; expected <= tag; ++expected) {
      const auto reply = stuck.reply();
      if (!reply || reply->tag != expected || reply->remaining != 1'000'000 - expected) {
        FAIL_CHECK("reply ", expected, " of ", tag, " is missing or wrong");
        break;
      }
    }
    sender.join();
    CHECK(server->count(ShardCount::reply_memory_out) == 0);
  }
}

TEST_CASE("a peer that never reads is closed in the end") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.stuck_timeout_ms = 50;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient stuck = server.greeted({.receive_buffer_bytes = 4096});
    const Octets take = request_bytes(slow_take(1, "never-reads", 1'000'000));
    Octets many;
    for (int i = 0; i < 200; ++i) many = joined(std::move(many), take);
    std::size_t sent = 0;
    CHECK(eventually([&] {
      sent = (sent + stuck.send_some(protocol::Bytes(many).subspan(sent))) % many.size();
      return server->count(ShardCount::stuck_timeouts) > 0;
    }));
    CHECK(eventually([&] { return server->connections() == 0; }));
    CHECK(server.is_healthy());
  }
}

TEST_CASE("a flood from one connection leaves the others their turn") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient flooder = server.greeted();
    constexpr std::uint32_t kTakes = 100'000;
    Octets flood;
    for (std::uint32_t i = 0; i < kTakes; ++i) {
      const Octets take = request_bytes(slow_take(i + 1, "flood", 1'000'000));
      flood.insert(flood.end(), take.begin(), take.end());
    }
    std::thread sender([&] { flooder.send(flood); });
    for (int i = 0; i < 20; ++i) CHECK(server.is_healthy());
    for (std::uint32_t i = 0; i < kTakes; ++i) {
      const auto reply = flooder.reply();
      if (!reply || reply->tag != i + 1) {
        FAIL_CHECK("reply ", i, " is missing");
        break;
      }
    }
    sender.join();
  }
}

TEST_CASE("a request whose deadline has passed charges nothing") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io));
    RawClient client = server.connect();
    REQUIRE(client.send(hello_bytes()));
    const auto answer = client.frame();
    REQUIRE(answer);
    const auto hello = protocol::decode_hello_reply(*answer);
    REQUIRE(hello);
    protocol::Request late = slow_take(1, "late", 10);
    late.expires_us = static_cast<std::uint32_t>(hello->clock_us) - 1'000'000;
    protocol::Request timely = slow_take(2, "late", 10);
    timely.expires_us = static_cast<std::uint32_t>(hello->clock_us) + 1'000'000'000;
    REQUIRE(client.send(joined(request_bytes(late), request_bytes(timely))));
    auto reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->status == Status::expired);
    reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->status == Status::ok);
    CHECK(reply->remaining == 9);
  }
}

}  // namespace
}  // namespace pail::test
