// paild as a process of its own that serves on a free port of loopback.
#pragma once

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {

class Serving {
 public:
  Serving(const char* io, unsigned shards)
      : ready_("/tmp/pail-serving-test." + std::to_string(::getpid()) + ".json"),
        paild_({"--listen", "127.0.0.1:0", "--io", io, "--shards", std::to_string(shards),
                "--ready-file", ready_}) {
    REQUIRE(eventually([&] { return ::access(ready_.c_str(), F_OK) == 0; }));
    address_ = between(Process::contents(ready_), "[\"", "\"]");
    ::unlink(ready_.c_str());
  }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::optional<RawClient> greeted() const {
    RawClient client(address_);
    if (!client.greet()) return std::nullopt;
    return client;
  }
  // One take of `key` on a connection of its own: what it leaves of a burst of 10.
  [[nodiscard]] std::optional<std::uint32_t> take(std::string_view key) const {
    auto client = greeted();
    if (!client || !client->send(request_bytes(slow_take(1, key, 10)))) return std::nullopt;
    const auto reply = client->reply();
    if (!reply || reply->status != protocol::Status::ok) return std::nullopt;
    return reply->remaining;
  }
  // Its exit status after a polite request to end.
  [[nodiscard]] int end() {
    paild_.signal(SIGTERM);
    return paild_.exit_code();
  }

 private:
  std::string ready_;
  Process paild_;
  std::string address_;
};

}  // namespace pail::test
