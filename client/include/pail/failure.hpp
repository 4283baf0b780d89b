// What becomes of a take when there is no decision to be had: the server is stopped, unreachable,
// overloaded, answers garbage, or answers too late.
//
// A limiter that stands before every request must not become the outage, so by default such a
// request is let through (`open`). What was decided like that says so: Decision::source, and
// Decision::failure says why; ClientCounters count it.
#pragma once

#include <cstdint>

namespace pail {

enum class OnFailure : std::uint8_t {
  open,    // let it through, uncounted
  closed,  // refuse it, with a guess of when to ask again
  // Let through what a bucket in this process admits: a stated share of the limit, see
  // ClientOptions::local_gateways. Refused where the numbers of the limit are not known: a policy
  // without Limit::with_numbers(), and permits.
  local,
  report,  // answer the error, for callers that decide by themselves
};

// Since the client was made; each only grows. Read together they are of slightly different moments.
struct ClientCounters {
  std::uint64_t server_decisions = 0;  // takes, peeks, permits, settlements that the server decided
  std::uint64_t fallback_open = 0;     // let through without a decision
  std::uint64_t fallback_closed = 0;   // refused without a decision
  std::uint64_t fallback_local_admitted = 0;
  std::uint64_t fallback_local_refused = 0;
  // Tokens that the server leased to this client; what became of them; and takes that were refused
  // by what is remembered of the server's refusals.
  std::uint64_t leased = 0;
  std::uint64_t lease_spent = 0;
  std::uint64_t lease_returned = 0;
  std::uint64_t lease_expired = 0;
  std::uint64_t lease_refusals = 0;
  std::uint64_t timeouts = 0;         // calls that ended at their deadline
  std::uint64_t circuit_opened = 0;   // times that the circuit breaker opened
  std::uint64_t connects = 0;         // connections made, the first one included
  std::uint64_t failed_connects = 0;  // attempts that came to nothing
};

}  // namespace pail
