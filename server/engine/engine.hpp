// The limiter: what the server asks, and any program that wants a limiter without a socket.
//
// An Engine holds one table of keys, shared by all threads, and the policies. A thread that decides
// enrolls once and gets a Worker of its own; a Worker is used by that one thread only, and goes
// before the Engine does. Requests are decided in batches against one reading of the clock, which
// the caller passes in, so that tests can own time. Only what needs to know that time has not moved
// on reads it again, by the ClockSource that the worker was enrolled with: a decision that finds
// its reading old (at the end of a window), a refusal that a later one would turn, and what gives
// back.
//
//   engine::Engine engine(options);
//   auto worker = engine.enroll();
//   worker->decide(requests, now, decisions);   // any number; groups of 16 are prefetched together
//   worker->end_turn(now);                      // once a loop turn
//
// Progress: a decision waits for no other thread. Of the threads that race on one key at least one
// succeeds at every step, the others decide again; a refusal only reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/engine/counter.hpp"
#include "server/engine/limit.hpp"
#include "server/engine/policy_spec.hpp"
#include "server/engine/rate.hpp"
#include "server/engine/request.hpp"
#include "server/engine/secret.hpp"
#include "server/engine/table_types.hpp"
#include "server/engine/ticks.hpp"

namespace pail::engine {

// What becomes of a take of a new key that finds no memory: refused (`table_full`), or let through
// uncounted, for those who would rather serve too much than too little. Only takes of one limit:
// permits, layers and what is settled later are refused.
enum class OnFull : std::uint8_t { refuse, admit };

struct Options {
  // Of the table, in resident bytes; a million live keys need 30 MB. At the limit new keys are
  // refused.
  std::size_t memory_limit_bytes = std::size_t{1} << 30;
  OnFull on_full = OnFull::refuse;
  std::vector<PolicySpec> policies = {};  // must be valid: see check_policies()
  std::vector<OverrideSpec> overrides = {};
  UnknownPolicy unknown_policy = {};
  HashSecret secret = random_secret();  // of the keyed hash; tests fix it, servers do not
  // UTC at tick 0, which windows are aligned by: 1971 or later.
  std::uint64_t utc_epoch_ns = 1'767'225'600'000'000'000;
  // How long a counter lives to which nobody gives an end; 1 to kMaxCounterNs.
  std::uint64_t counter_life_ns = kDefaultCounterNs;
};

// What the table still has to do in the background, and so how long a worker may sleep.
enum class Upkeep : std::uint8_t {
  none,   // nothing: as long as it likes
  later,  // idle entries may be waiting to be forgotten: about a second
  now,    // not at all: end another turn
};

// How a worker reads the clock between two readings that it is given. Nothing: it does not.
struct ClockSource {
  Ticks (*read)(const void* context) noexcept = nullptr;
  const void* context = nullptr;

  [[nodiscard]] Ticks fresh(Ticks at) const noexcept {
    if (read == nullptr) return at;
    const Ticks now = usable_now(read(context));
    return now > at ? now : at;
  }
};

// Of takes under one policy, since it was made.
struct PolicyCounts {
  std::uint64_t admitted = 0;
  std::uint64_t denied = 0;
  std::uint64_t shed = 0;
  std::uint64_t never = 0;
  std::uint64_t table_full = 0;
  std::uint64_t shadow = 0;   // of those admitted: only because the policy is not enforced
  std::uint64_t expired = 0;  // not decided, because the caller would not wait for the answer
  std::uint64_t tokens = 0;   // granted; what is settled or given back later is not taken off
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
  // it. With a ClockSource a refusal stands only where a later reading refuses too; what is decided
  // once more for that is decided behind the others of its group of 16.
  void decide(std::span<const Request> requests, Ticks now, std::span<Decision> decisions) noexcept;

  // The rest is decided one by one, and is by policy only.

  // All layers or none: 1 to kMaxLayers, no two of one policy and key.
  void take_all(std::span<const Layer> layers, std::uint8_t priority, Ticks now,
                LayersDecision& decision) noexcept;

  // A take that may be settled: `receipt` is for settle(), once, where it was admitted.
  void take_to_settle(const Request& request, Ticks now, Decision& decision,
                      Receipt& receipt) noexcept;
  // Corrects the charge to request.cost, for the policy and key that it was made to. `granted` is
  // what is charged now: more than asked where a part had been refilled meanwhile, less where
  // max_debt did not allow more.
  void settle(const Request& request, const Receipt& receipt, Ticks now,
              Decision& decision) noexcept;

  // Up to request.cost tokens to be spent elsewhere: at most the policy's share of what is left.
  // What is `granted` is charged now, and `receipt` is for give_back(); admitted with `granted` 0:
  // there is budget, but none to lease. The result is how long it may be spent, 0 where the policy
  // is not leased.
  [[nodiscard]] std::uint64_t lease(const Request& request, Ticks now, Decision& decision,
                                    Receipt& receipt) noexcept;
  // Returns request.cost unspent tokens of a lease, once. `granted` is how many came back.
  void give_back(const Request& request, const Receipt& receipt, Ticks now,
                 Decision& decision) noexcept;

  // Permits of a concurrency policy; the cost of a grant is the same in all three. `denied` in
  // renew() means that it has lapsed: `wait_ns` is when acquire() would be admitted, 0 for at once,
  // and `remaining` what is left as it is. release() is always admitted: `granted` are the permits
  // that came back, 0 if they had lapsed. Each grant is released once: twice takes another's
  // permit.
  void acquire(const Request& request, Ticks now, Decision& decision, Grant& grant) noexcept;
  void renew(const Request& request, Ticks now, Decision& decision, Grant& grant) noexcept;
  void release(const Request& request, std::uint64_t grant, Ticks now, Decision& decision) noexcept;

  // Counters, which are no limits and have keys of their own; the key must be a valid one.
  void count(const CounterRequest& request, Ticks now, CounterAnswer& answer) noexcept;

  // A request that its front end has not asked about, because its deadline had passed.
  void count_expired(std::uint32_t policy) noexcept;

  // Between batches, once a loop turn: a bounded piece of background work (20 us or so), and the
  // moment at which other workers may free what this one could still be looking at.
  Upkeep end_turn(Ticks now) noexcept;
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
  // Throws std::invalid_argument if the policies cannot be used, std::bad_alloc if not even
  // addresses can be had, std::system_error if the kernel gives no secret.
  explicit Engine(const Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // From any thread, for the use of one. Throws std::length_error if there are 256 workers already.
  [[nodiscard]] std::unique_ptr<Worker> enroll(ClockSource clock = {});

  // From any thread: these are all policies from the next batch of each worker on, or the error
  // says what is wrong, and nothing has changed. A key whose limit changes has used what it has
  // used, as far as its new limit could have admitted that: a change grants at most one new burst.
  // The version of the new set: 1 was the first's, and each is 1 more than the one before.
  tl::expected<std::uint32_t, std::string> replace_policies(
      std::span<const PolicySpec> policies, std::span<const OverrideSpec> overrides = {},
      const UnknownPolicy& unknown = {});
  [[nodiscard]] std::uint32_t policies_version() const noexcept;
  // Frees what was replaced, if every worker has ended a turn, or slept, since. Workers do it, too,
  // when they end a turn.
  void settle_policies() noexcept;

  // From any thread: what all workers have counted for a policy, of which numbers never go down as
  // long as it stays, however it changes. And requests, of any kind, for policies that there are
  // not.
  [[nodiscard]] PolicyCounts policy_counts(std::uint32_t policy) const noexcept;
  [[nodiscard]] std::uint64_t unknown_policies() const noexcept;

  // From any thread. While workers run, the figures may be of slightly different moments.
  [[nodiscard]] TableStats table_stats() const noexcept;

 private:
  friend class Worker;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pail::engine
