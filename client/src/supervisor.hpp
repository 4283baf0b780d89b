// The connection of a client: which one is used now, when another is made, and whether the server
// is asked at all. Nothing here waits for longer than its caller's deadline.
//
// Connections after the first are made by a thread of our own, started when one is first needed,
// one a client however many callers there are. It works on demand: when a caller found the
// connection gone, or while the circuit is open. Between two attempts there are pauses: 50 ms at
// first, doubled up to 500 ms while the server does not last, each shortened by up to half at
// random, so that the clients of a server that comes back do not arrive together. An attempt is
// given up after a quarter of connect_timeout.
//
//            `limit` timeouts in a row               a PING is answered, or a connection greeted
//   closed ----------------------------> open ------------------------------------------------+
//     ^                                   ^ (callers go without, nothing of theirs is spent)  |
//     |  an answer            one timeout |                                                   v
//     +-----------------------------------+------------------------------------------- half-open
//
// Half-open needs no state of its own: it is closed, with all but one of the timeouts counted. The
// prober asks PING where there is a connection; if that is not answered either, the connection is
// given up, because a network that has swallowed packets for a while makes TCP wait long after it
// works again.
//
// Lock order: the supervisor's mutex, then a connection's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include <pail/error.hpp>
#include "client/src/connection.hpp"

namespace pail::internal {

// What a client was made with, as far as connections go.
struct Target {
  std::string address;
  std::string tcp_congestion;
  std::string token;
  std::string client_name;
  std::size_t max_in_flight = 1024;
  std::chrono::nanoseconds connect_timeout{};
  std::uint32_t circuit_timeouts = 0;  // 0: the circuit never opens
};

class Supervisor {
 public:
  using Handle = std::shared_ptr<Connection>;

  // Errors: system.
  [[nodiscard]] static Result<std::unique_ptr<Supervisor>> make(Target target);
  ~Supervisor();  // ends the connection
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // By the caller itself; before all other use.
  [[nodiscard]] Result<void> connect_now();

  // Null where none was made yet. It may have ended.
  [[nodiscard]] Handle current() const;
  // The one in the place of `old`, which takes no more requests for the reason `why`: at the
  // deadline at the latest, and at once where it is not yet time for another attempt.
  [[nodiscard]] Result<Handle> replaced(const Handle& old, const Error& why, Time deadline);

  [[nodiscard]] bool is_circuit_open() const noexcept {
    return is_open_.load(std::memory_order_relaxed);
  }
  void on_answer() noexcept {
    if (timeouts_.load(std::memory_order_relaxed) != 0) forget_timeouts();
  }
  void on_timeout();

  [[nodiscard]] bool usable() const;
  void close() noexcept;    // for good
  void abandon() noexcept;  // this connection cannot be trusted any more

  // Statistics, relaxed.
  [[nodiscard]] std::uint64_t connects() const noexcept { return connects_; }
  [[nodiscard]] std::uint64_t failed_connects() const noexcept { return failed_connects_; }
  [[nodiscard]] std::uint64_t circuit_opened() const noexcept { return circuit_opened_; }

 private:
  using Lock = std::unique_lock<std::mutex>;

  Supervisor(Target target, Bell farewell);
  [[nodiscard]] Result<Handle> open(Time deadline);
  [[nodiscard]] bool start_background(Lock& lock);
  void run_background();
  void attempt(Lock& lock);
  void take_up(Handle fresh);
  void note_end(Time now);
  void forget_timeouts() noexcept;

  const Target target_;
  Bell farewell_;                           // ends an attempt that is under way
  std::atomic<bool> is_open_{false};        // written under the mutex; readers need not be exact
  std::atomic<std::uint32_t> timeouts_{0};  // in a row; written under the mutex
  std::atomic<std::uint64_t> connects_{0};
  std::atomic<std::uint64_t> failed_connects_{0};
  std::atomic<std::uint64_t> circuit_opened_{0};

  mutable std::mutex mutex_;
  std::condition_variable callers_;     // an attempt has ended
  std::condition_variable background_;  // there is something to do, or an end
  // Guarded by the mutex.
  Handle connection_;
  bool is_closed_ = false;
  bool is_wanted_ = false;     // a caller found the connection gone
  bool is_end_known_ = false;  // connection_ ended, and somebody has noticed
  bool is_attempting_ = false;
  std::uint64_t attempts_ended_ = 0;
  Error last_failure_;  // of the last attempt
  Time connected_at_{};
  Time next_attempt_{};
  std::chrono::nanoseconds pause_;
  std::minstd_rand jitter_{std::random_device{}()};
  std::thread thread_;
};

}  // namespace pail::internal
