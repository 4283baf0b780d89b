// The limiter: what the server asks, and any program that wants a limiter without a socket.
//
// An Engine holds one table of keys, shared by all threads, and the policies. A thread that decides
// enrolls once and gets a Worker of its own; a Worker is used by that one thread only, and goes
// before the Engine does. Requests are decided in batches against one reading of the clock, which
// the caller passes in: the engine never reads a clock by itself, so that tests can own time.
//
//   engine::Engine engine(options);
//   auto worker = engine.enroll();
//   worker->decide(requests, now, decisions);   // any number; groups of 16 are prefetched together
//   worker->end_turn(now);                      // once a loop turn: quiescent state, bounded
//   housekeeping
//
// Progress: a decision waits for no other thread. Of the threads that race on one key at least one
// succeeds at every step, the others decide again; a refusal only reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/engine/rate.hpp"
#include "server/engine/request.hpp"
#include "server/engine/secret.hpp"
#include "server/engine/ticks.hpp"

namespace pail::engine {

struct Options {
  std::size_t max_keys = std::size_t{1} << 20;  // room for this many live keys
  std::vector<NamedRate> policies = {};         // must be valid: see check_policies()
  HashSecret secret = random_secret();          // of the keyed hash; tests fix it, servers do not
};

// What a caller is told to wait for when there is no room for its key. Nobody can know when an
// entry will become free, so this is the one retry-after that promises nothing.
inline constexpr std::uint64_t kTableFullRetryNs = 1'000'000'000;

class Worker {
 public:
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Decides requests[i] into decisions[i], in order, as if at one instant `now`; there must be as
  // many decisions as requests. Allocates nothing. `now` outside kMinNow to kMaxNow is brought into
  // it.
  void decide(std::span<const Request> requests, Ticks now, std::span<Decision> decisions) noexcept;

  void end_turn(Ticks now) noexcept;
  // Around a sleep in the kernel: a worker that sleeps holds up nobody.
  void offline() noexcept;
  void online() noexcept;

 private:
  friend class Engine;
  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

class Engine {
 public:
  // Throws std::invalid_argument if the policies cannot be used, std::bad_alloc if there is no
  // memory for the keys, std::system_error if the kernel gives no secret.
  explicit Engine(const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From any thread, for the use of one.
  [[nodiscard]] std::unique_ptr<Worker> enroll();

 private:
  friend class Worker;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pail::engine
