// A rate limiter over real sockets that is right, or wrong in one of the ways that limiters have
// been wrong: what the audit has to catch.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "tests/support/stub_server.hpp"

namespace pail::test {

enum class Fault : std::uint8_t {
  none,
  floored_interval,  // the time a token takes in whole nanoseconds, rounded down
  double_refund,     // a refused take is charged, then given back twice
  forgotten_max,     // an idle key's time is not raised to now, so idling saves up tokens
};

class FaultyServer {
 public:
  explicit FaultyServer(Fault fault)
      : fault_(fault), server_([this](Peer& peer) { serve(peer); }) {}
  [[nodiscard]] const std::string& address() const { return server_.address(); }

 private:
  using Clock = std::chrono::steady_clock;
  // The server says it has run this long, so that a key may have been idle.
  static constexpr std::uint64_t kAgeNs = 3'600'000'000'000;
  static constexpr std::uint64_t kTicksPerNs = 16;

  void serve(Peer& peer) {
    if (!peer.greet()) return;
    while (const auto request = peer.next()) {
      protocol::Reply reply = admitted(*request);
      if (!take(*request)) {
        reply.status = protocol::Status::denied;
        reply.granted = 0;
        reply.wait_ns = 1;
      }
      peer.send(reply);
    }
  }

  [[nodiscard]] bool take(const ReceivedRequest& request) {
    const std::lock_guard lock(mutex_);
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
    const std::uint64_t now = (kAgeNs + static_cast<std::uint64_t>(elapsed.count())) * kTicksPerNs;
    const auto& limit = request.inline_limit;
    const std::uint64_t period = limit.period_ns * kTicksPerNs;
    std::uint64_t interval = (period + limit.count - 1) / limit.count;
    if (fault_ == Fault::floored_interval) {
      interval = limit.period_ns / limit.count * kTicksPerNs;
    }
    std::uint64_t& word = words_[request.key_text];
    const std::uint64_t before =
        fault_ == Fault::forgotten_max && word != 0 ? word : std::max(word, now);
    const std::uint64_t first = fault_ == Fault::forgotten_max && word == 0 ? now - kAgeNs : before;
    const std::uint64_t next = first + request.cost * interval;
    if (next <= now + limit.burst * interval) {
      word = next;
      return true;
    }
    if (fault_ == Fault::double_refund) word = first - request.cost * interval;
    return false;
  }

  const Fault fault_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> words_;  // guarded by the mutex
  StubServer server_;                           // last: its scripts use the rest
};

}  // namespace pail::test
