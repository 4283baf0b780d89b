// The limiter: what the server asks, and any program that wants a limiter without a socket.
//
// An Engine holds one table of keys, shared by all threads, and the policies. A thread that decides
// enrolls once and gets a Worker of its own; a Worker is used by that one thread only. Requests are
// decided in batches against one reading of the clock, which the caller passes in: the engine never
// reads a clock by itself, so that tests can own time.
//
//   engine::Engine engine(options);
//   auto worker = engine.enroll();
//   worker.decide(requests, now, decisions);   // any number; groups of 16 are hashed and prefetched together
//   worker.end_turn(now);                      // once a loop turn: quiescent state, bounded housekeeping
//
// (This header is the contract that the other rooms build against; the engine's author refines it.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pail::engine {

// Time since the server's epoch in sixteenths of a nanosecond.
using Ticks = std::uint64_t;
inline constexpr Ticks kTicksPerNs = 16;

enum class Verdict : std::uint8_t { admitted, denied, shed, never, table_full, unknown_policy, bad_request };

enum class Action : std::uint8_t { take, peek, reset };

// A token bucket as people and the wire say it: `count` tokens every `period_ns`, at most `burst` at once.
struct Rate {
  std::uint64_t period_ns = 0;
  std::uint32_t count = 0;
  std::uint32_t burst = 0;
};

struct Request {
  Action action = Action::take;
  std::uint8_t priority = 0;
  bool partial = false;
  bool has_inline_rate = false;
  std::uint32_t policy = 0;  // id of a named policy, where there is no inline rate
  std::uint32_t cost = 1;
  Rate inline_rate;
  std::span<const std::byte> key;
};

struct Decision {
  Verdict verdict = Verdict::admitted;
  std::uint32_t granted = 0;
  std::uint32_t remaining = 0;
  std::uint32_t limit = 0;
  std::uint16_t policy_version = 0;
  std::uint64_t wait_ns = 0;   // admitted: hold; refused: retry after; never: all ones
  std::uint64_t reset_ns = 0;
  std::string_view reason;     // static text where the verdict is bad_request
};

// A named token bucket.
struct NamedRate {
  std::string name;
  std::uint32_t id = 0;  // protocol::policy_id(name), computed by the caller: the engine knows no protocol
  Rate rate;
};

struct Options {
  std::size_t max_keys = std::size_t{1} << 20;  // room for this many live keys
  std::vector<NamedRate> policies;              // must be valid: see check_rate()
};

class Engine;

class Worker {
 public:
  // Decides requests[i] into decisions[i], in order, as if at one instant `now`. noexcept, allocates nothing.
  void decide(std::span<const Request> requests, Ticks now, std::span<Decision> decisions) noexcept;
  void end_turn(Ticks now) noexcept;
  // Around a sleep in the kernel: a worker that sleeps holds up nobody.
  void offline() noexcept;
  void online() noexcept;
};

class Engine {
 public:
  explicit Engine(const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  [[nodiscard]] std::unique_ptr<Worker> enroll();
};

// Empty if the rate can be used; else what is wrong and what would be right ("burst x period / count is
// too long: 4.5 years at most").
[[nodiscard]] std::string check_rate(const Rate& rate);

}  // namespace pail::engine
