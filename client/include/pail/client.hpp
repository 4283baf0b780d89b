// The blocking client: one connection to one server, shared by any number of threads.
//
//   auto client = pail::Client::connect("127.0.0.1:7245");
//   if (!client) return fail(client.error().text);
//   const auto limit = pail::Limit::rate(100, std::chrono::seconds(1), 20);
//   auto decision = client->take(limit, "partner-a");
//   if (!decision)                  ...  // the call is wrong: unknown_policy, bad_argument, ...
//   else if (decision->admitted())  ...  // go ahead
//   else                            ...  // 429, Retry-After:
//   pail::http::retry_after_seconds(*decision)
//
// Threads: every function may be called from any number of threads at once, but moving, assigning
// and destroying a Client excludes all other use of it. Calls from many threads are in flight
// together: what is asked while another thread is writing leaves in one segment with that thread's
// next write. The callers that wait do the reading and writing in turn; no thread of the library's
// own stands between.
//
// Time: every call returns at its deadline at the latest (plus what the scheduler adds), whatever
// the server does. A call that timed out tells the server so in advance (the request carries its
// deadline on the server's clock, as learnt when connecting, with a margin for clocks that run
// unequally): a server that reads such a request late answers `expired` and charges nothing. That
// protection ends about 17 minutes after connecting, when the margin has grown to a second.
//
// Memory: bounded by ClientOptions::max_in_flight, at most 2.2 KiB each (a take_all: 17 KiB), and
// about 80 KiB a connection; ClientOptions::local_keys and
// lease_keys.
//
// A connection that ended, whatever for, is replaced in the background, by a thread of the
// client's own: a call that finds it gone waits for the new one, but not beyond its
// deadline. A server that is about to stop says so (GOAWAY): calls in flight are still answered.
// Otherwise their fate is unknown, and they are never sent again. Between two attempts to connect
// there are 50 ms, doubled up to 500 ms while the server does not last, less up to half at random;
// meanwhile calls do not wait at all. Grants do not outlive their connection (permits do), and a
// server that was started anew begins with full budgets.
//
// A server that leaves ClientOptions::circuit_timeouts calls in a row unanswered is not asked any
// more (ErrorCode::circuit_open) until it answers a PING, or a new connection's greeting; so a
// server that hangs costs its deadline only a few times, not on every request.
//
// Without a decision of the server the failure policy decides, by default `open`: see failure.hpp.
// take(), take_all() and acquire() then return a Decision that says so, and no Error; errors are
// left for calls that are wrong and for what the server refuses to decide (unknown_policy,
// table_full, ...).
//
// Leases: of a policy that its server leases, take() of a key that is in demand is decided here,
// from tokens that were taken ahead (Decision::Source::lease), by one compare-and-swap; whatever
// does not fit is asked of the server. They are fetched in the background, returned by close(), and
// end with their ttl, so over any time t a key is admitted at most burst + rate x (t + ttl) over
// all clients. A partial take, or one that is settled later, never uses them. Refusals of such
// policies are remembered until their retry-after, for at most a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <pail/decision.hpp>
#include <pail/error.hpp>
#include <pail/failure.hpp>
#include <pail/limit.hpp>
#include <pail/stats.hpp>

namespace pail {

struct ClientOptions {
  // How long a call may take where the call does not say; 1 us to 1 hour.
  std::chrono::nanoseconds deadline = std::chrono::milliseconds(5);
  // How long connect() may take, the greeting included; a quarter of it is what an attempt in the
  // background may take. 1 us to 1 hour.
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(1);
  // Whether connect() fails where no server is reached. If not, the failure policy decides until
  // one is.
  bool must_connect = true;
  // What becomes of take(), take_all() and acquire() without a decision.
  OnFailure on_failure = OnFailure::open;
  // Of OnFailure::local: a bucket is this part of its limit (rate and burst). As many as there are
  // gateways, and together they keep the limit; 1 to 256.
  std::uint32_t local_gateways = 8;
  // Keys that local buckets remember, 16 bytes each, from the first fallback on; at most 2^24.
  std::size_t local_keys = 16'384;
  // Keys for which tokens of leased policies are held here, about 250 bytes each and the key; 0:
  // none are. At most 65,536.
  std::size_t lease_keys = 1024;
  // Calls that must time out in a row for the circuit to open; 0: it never does. Only calls with at
  // least `deadline` count.
  std::uint32_t circuit_timeouts = 5;
  // Answers waited for at once, those of calls that timed out included; 1 to 65,536.
  std::size_t max_in_flight = 1024;
  std::string name = {};            // shown to the server's operator; at most 64 bytes
  std::string token = {};           // where the server wants one; at most 256 bytes
  std::string tcp_congestion = {};  // "cubic"; empty: the system's default. Not for Unix sockets
};

struct CallOptions {
  std::uint32_t cost = 1;     // tokens, at least 1
  std::uint8_t priority = 0;  // 0 (lowest) to 3; lower ones cannot touch a policy's reserve
  bool partial = false;       // grant what there is if it is less than the cost
  bool settle_later = false;  // take() from a policy: the cost is an estimate, see settle()
  // From now; none: ClientOptions::deadline.
  std::optional<std::chrono::nanoseconds> deadline = std::nullopt;
  // None: ClientOptions::on_failure.
  std::optional<OnFailure> on_failure = std::nullopt;
};

// One limit of take_all(): a policy, and whose budget.
struct Layer {
  Limit limit;
  std::string_view key;
  std::uint32_t cost = 1;
};

class LeaseKeeper;

class Client {
 public:
  // Connects and greets. `address` is "127.0.0.1:7245", "[::1]:7245" or "unix:/path".
  // Errors: bad_argument, timeout, connection_refused, unreachable, closed, protocol_error,
  // version_mismatch, unauthorized, system.
  [[nodiscard]] static Result<Client> connect(std::string_view address, ClientOptions options = {});

  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();  // closes the connection

  // Takes `cost` tokens from the budget of `key` (1 to 1,024 arbitrary bytes), all or none of them.
  [[nodiscard]] Result<Decision> take(const Limit& limit, std::string_view key,
                                      const CallOptions& options = {});

  // What a TAKE of `cost` would be answered now; charges nothing.
  [[nodiscard]] Result<Decision> peek(const Limit& limit, std::string_view key,
                                      const CallOptions& options = {});

  // Takes from 1 to 8 policies, from all of them or from none; no two layers have the same policy
  // and key. Of the options, cost, partial and settle_later do not count. A fallback
  // names no layers.
  [[nodiscard]] Result<LayersDecision> take_all(std::span<const Layer> layers,
                                                const CallOptions& options = {});

  // settle(), renew() and release() of grant 0, which is what a fallback gives, do nothing and are
  // admitted.

  // Corrects what take() with settle_later charged to `actual` tokens. `granted` is what is charged
  // now in all: more than `actual` where a part had been refilled meanwhile, less where the
  // policy's max_debt did not allow more. A grant is settled once, on this client, within ten
  // minutes; a second time is ErrorCode::bad_argument.
  [[nodiscard]] Result<Decision> settle(const Limit& policy, std::string_view key,
                                        std::uint64_t grant, std::uint32_t actual,
                                        const CallOptions& options = {});

  // Permits of a concurrency policy: CallOptions::cost of them, the same in all three calls; of a
  // partial acquire() go on with what was granted. They
  // are held until Decision::grant_expires; renew() before, and go on with the grant that it
  // answers. A permit that is not released comes back by itself, within two ttls. release() is
  // admitted always: `granted` is how many came back. Release once: twice gives back somebody
  // else's, so a release whose fate is unknown is left alone.
  [[nodiscard]] Result<Decision> acquire(const Limit& policy, std::string_view key,
                                         const CallOptions& options = {});
  [[nodiscard]] Result<Decision> renew(const Limit& policy, std::string_view key,
                                       std::uint64_t grant, const CallOptions& options = {});
  [[nodiscard]] Result<Decision> release(const Limit& policy, std::string_view key,
                                         std::uint64_t grant, const CallOptions& options = {});

  // Forgets what was taken from `key`: its budget is full again. Of the options only the deadline
  // counts.
  [[nodiscard]] Result<void> reset(const Limit& limit, std::string_view key,
                                   const CallOptions& options = {});

  // One round trip; its duration.
  [[nodiscard]] Result<std::chrono::nanoseconds> ping(const CallOptions& options = {});

  // Asks about policies, or changes them: {"list"}, {"show", "api"}, {"set", "api", "rate=200/s"},
  // ... as `pail policy` does; see docs/operations.md. At most 1,024 bytes, and no zero byte, in
  // all. Errors: as take(), bad_argument with what the server says is wrong, unauthorized.
  [[nodiscard]] Result<PolicyAnswer> policy(std::span<const std::string> words,
                                            const CallOptions& options = {});

  // What the server counts: all shards together, or the n-th (from 1). A page is a round trip, and
  // they are read one after another; the deadline is for each.
  [[nodiscard]] Result<ServerStats> stats(std::uint32_t shard = 0, const CallOptions& options = {});

  // What this client has counted since it was made.
  [[nodiscard]] ClientCounters counters() const noexcept;

  // False while there is no connection that can be used, or the circuit is open; and for good once
  // close() was called. A connection that ended is replaced when a call asks for it.
  [[nodiscard]] bool usable() const noexcept;

  // Ends the connection for good: calls in flight and to come get no decision (ErrorCode::closed).
  // Idempotent.
  void close() noexcept;

 private:
  friend class LeaseKeeper;
  struct Parts;
  explicit Client(std::unique_ptr<Parts> parts) noexcept;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pail
