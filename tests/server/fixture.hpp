// A whole server inside the test's process, on a free port of loopback.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "server/server.hpp"
#include "tests/support/random.hpp"
#include "tests/support/raw_client.hpp"

namespace pail::test {

// The suites that touch sockets run over each backend.
inline constexpr server::IoChoice kBackends[] = {server::IoChoice::uring, server::IoChoice::epoll};

inline server::Config local_config(server::IoChoice io = server::IoChoice::uring,
                                   unsigned shards = 1) {
  server::Config config;
  config.listen = {*protocol::parse_address("127.0.0.1:0")};
  config.shards = shards;
  config.memory_bytes = std::size_t{64} << 20;
  config.io = io;
  return config;
}

class TestServer {
 public:
  explicit TestServer(const server::Config& config) {
    auto started = server::Server::start(config);
    if (!started) FAIL("the server does not start: ", started.error());
    server_ = std::move(*started);
    address_ = server_->addresses().front();
  }
  server::Server* operator->() noexcept { return server_.get(); }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] RawClient connect(const RawOptions& options = {}) const {
    return RawClient(address_, options);
  }
  [[nodiscard]] RawClient greeted(const RawOptions& options = {}) const {
    RawClient client(address_, options);
    REQUIRE(client.greet());
    return client;
  }
  // One more client is served as the first one was.
  [[nodiscard]] bool is_healthy() {
    RawClient client(address_);
    if (!client.greet()) return false;
    protocol::Request ping;
    ping.op = protocol::Op::ping;
    ping.tag = 77;
    if (!client.send(request_bytes(ping))) return false;
    const auto reply = client.reply();
    return reply && reply->tag == 77 && reply->status == protocol::Status::ok;
  }
  // Waits until the server has received so many bytes since it started.
  [[nodiscard]] bool has_received(std::uint64_t bytes) {
    return eventually([&] { return server_->count(server::ShardCount::received_bytes) >= bytes; });
  }

 private:
  std::unique_ptr<server::Server> server_;
  std::string address_;
};

}  // namespace pail::test
