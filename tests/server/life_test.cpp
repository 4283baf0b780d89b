// Concern: how the server starts, drains and ends. Method: a server within the test, and paild
// itself as a process of its own.
#include <signal.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

using protocol::Status;
using server::ShardCount;

// The next reply that is not the server's goodbye.
std::optional<protocol::Reply> reply_or_goodbye(RawClient& client) {
  auto reply = client.reply();
  if (reply && reply->op == protocol::Op::goaway) reply = client.reply();
  return reply;
}

TEST_CASE("a stop says goodbye, and answers what is asked until that has been heard") {
  for (const auto io : kBackends) {
    auto config = local_config(io, 2);
    config.limits.goodbye_ms = 10'000;  // the drain ends it, or the peers do
    config.limits.drain_ms = 20'000;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient idle = server.greeted();
    RawClient silent = server.connect();
    REQUIRE(eventually([&] { return server->connections() == 2; }));
    server->stop();
    auto goodbye = idle.reply();
    REQUIRE(goodbye);
    CHECK(goodbye->op == protocol::Op::goaway);
    CHECK(goodbye->status == Status::ok);
    CHECK(goodbye->tag == 0);
    // A request that was on its way is answered.
    REQUIRE(idle.send(request_bytes(slow_take(9, "late", 5))));
    const auto reply = idle.reply();
    REQUIRE(reply);
    CHECK(reply->tag == 9);
    CHECK(reply->status == Status::ok);
    CHECK(eventually([&] {  // each shard stops accepting for itself
      try {
        static_cast<void>(server.connect());
        return false;
      } catch (const std::runtime_error&) {
        return true;
      }
    }));
    idle.finish_sending();
    silent.finish_sending();
    CHECK(idle.wait_for_end());
    CHECK(server->wait(kRawPatience));  // sooner than any deadline
  }
}

TEST_CASE("peers that ignore the goodbye are finished, and asked no more") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.goodbye_ms = 30;
    config.limits.linger_ms = 30;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient busy = server.greeted();
    server->stop();
    const Octets take = request_bytes(slow_take(9, "busy", 5));
    while (busy.send(take) && !server->wait(std::chrono::milliseconds(0))) {
      std::this_thread::yield();
    }
    CHECK(server->wait(kRawPatience));
  }
}

TEST_CASE("a shard that takes its turns has a pulse") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    CHECK(server->check_pulse());
    for (int i = 0; i < 3; ++i) CHECK(eventually([&] { return server->check_pulse(); }));
  }
}

TEST_CASE("a stop answers what was received, then closes and accepts no more") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    std::vector<RawClient> clients;
    for (int i = 0; i < 6; ++i) clients.push_back(server.greeted());
    RawClient idle = server.greeted();
    constexpr std::uint32_t kTakes = 200;
    Octets bytes;
    for (std::uint32_t i = 0; i < kTakes; ++i) {
      bytes = joined(std::move(bytes), request_bytes(slow_take(i + 1, "drained", 10'000)));
    }
    for (RawClient& client : clients) REQUIRE(client.send(bytes));
    server->stop();
    for (RawClient& client : clients) {
      for (std::uint32_t i = 0; i < kTakes; ++i) {
        const auto reply = reply_or_goodbye(client);
        REQUIRE(reply);
        REQUIRE(reply->tag == i + 1);
        REQUIRE(reply->status == Status::ok);
      }
      CHECK(client.wait_for_end());
    }
    CHECK(idle.wait_for_end());
    CHECK(server->wait(kRawPatience));
    CHECK(server->count(ShardCount::reply_bytes_dropped) == 0);
    CHECK_THROWS(static_cast<void>(server.connect()));
  }
}

TEST_CASE("a stuck peer does not keep the server from stopping") {
  for (const auto io : kBackends) {
    auto config = local_config(io);
    config.limits.drain_ms = 50;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient stuck = server.greeted({.receive_buffer_bytes = 4096});
    Octets many;
    for (std::uint32_t i = 0; i < 200; ++i) {
      many = joined(std::move(many), request_bytes(slow_take(1, "stuck", 1'000'000)));
    }
    std::size_t sent = 0;
    const auto unsent_bytes = [&] {
      const auto sent_bytes = server->count(ShardCount::sent_bytes);
      return protocol::kHelloReplyHeaderBytes +
             server->count(frontend::NativeCount::frames) * protocol::kReplyHeaderBytes -
             sent_bytes;
    };
    while (stuck.can_send_soon() || unsent_bytes() < config.limits.reply_window_bytes / 2) {
      sent = (sent + stuck.send_some(protocol::Bytes(many).subspan(sent))) % many.size();
    }
    server->stop();
    CHECK(server->wait(kRawPatience));
    CHECK(server->count(ShardCount::reply_bytes_dropped) > 0);
  }
}

TEST_CASE("paild tells that it is ready, serves, and ends on SIGTERM and SIGINT") {
  for (const int number : {SIGTERM, SIGINT}) {
    const std::string ready = "/tmp/pail-life-test." + std::to_string(::getpid()) + ".json";
    ::unlink(ready.c_str());
    Process paild({"--listen", "127.0.0.1:0", "--shards", "2", "--policy", "partner=1/d,2",
                   "--ready-file", ready});
    REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
    const std::string json = Process::contents(ready);
    const std::string address = between(json, "[\"", "\"]");
    CHECK(between(json, "\"pid\":", ",") == std::to_string(paild.pid()));
    RawClient client(address);
    REQUIRE(client.greet());
    protocol::Request take = slow_take(1, "alice", 1);
    take.has_inline_limit = false;
    take.policy = protocol::policy_id("partner");
    for (const Status expected : {Status::ok, Status::ok, Status::denied}) {
      REQUIRE(client.send(request_bytes(take)));
      const auto reply = client.reply();
      REQUIRE(reply);
      CHECK(reply->status == expected);
    }
    paild.signal(number);
    CHECK(client.wait_for_end());
    CHECK(paild.exit_code() == 0);
    const std::string output = paild.output();
    CHECK(output.find(address) != std::string::npos);
    CHECK(output.find("take --rate") != std::string::npos);
    CHECK(::access(ready.c_str(), F_OK) != 0);  // it serves no more
  }
}

TEST_CASE("the ready file of a successor outlives the server before it") {
  const std::string ready = "/tmp/pail-life-test." + std::to_string(::getpid()) + ".json";
  Process first({"--listen", "127.0.0.1:0", "--ready-file", ready});
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  const std::string before = Process::contents(ready);
  Process second({"--listen", "127.0.0.1:0", "--ready-file", ready});
  REQUIRE(eventually([&] { return Process::contents(ready) != before; }));
  const std::string after = Process::contents(ready);
  first.signal(SIGTERM);
  CHECK(first.exit_code() == 0);
  CHECK(Process::contents(ready) == after);
  second.signal(SIGTERM);
  CHECK(second.exit_code() == 0);
  CHECK(::access(ready.c_str(), F_OK) != 0);
}

TEST_CASE("paild refuses to be reachable from other machines unless told to") {
  for (const char* address : {"0.0.0.0:0", "[::]:0"}) {
    Process paild({"--listen", address});
    CHECK(paild.exit_code() == 2);
    CHECK(paild.output().find("--insecure") != std::string::npos);
  }
}

}  // namespace
}  // namespace pail::test
