#include "client/src/parts.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "protocol/codec.hpp"

namespace pail {
namespace {

using internal::Clock;
using internal::Time;
using std::chrono::nanoseconds;

// When to ask again where nobody knows: by then another attempt will have been made.
constexpr nanoseconds kClosedRetry = std::chrono::seconds(1);

// Whether nobody decided. What the server answered on purpose, a key that finds no room included,
// is its decision, and a call that is wrong stays wrong.
bool is_absence(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
    case ErrorCode::connection_refused:
    case ErrorCode::unreachable:
    case ErrorCode::closed:
    case ErrorCode::protocol_error:
    case ErrorCode::version_mismatch:
    case ErrorCode::unauthorized:
    case ErrorCode::overloaded:
    case ErrorCode::circuit_open:
    case ErrorCode::too_many_in_flight:
    case ErrorCode::system:
      return true;
    case ErrorCode::bad_argument:
    case ErrorCode::unknown_policy:
    case ErrorCode::table_full:
    case ErrorCode::not_supported:
      return false;
  }
  return false;
}

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

// What a fallback has let through was charged nowhere.
Decision nothing_to_give_back(protocol::Op op, std::uint32_t cost) {
  Decision decision;
  decision.status = Decision::Status::admitted;
  decision.source = Decision::Source::fallback_open;
  decision.granted = op == protocol::Op::settle ? cost : 0;
  return decision;
}

void count_one(std::atomic<std::uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Client::Parts::Parts(std::string_view server, ClientOptions with,
                     std::unique_ptr<internal::Supervisor> by, internal::Bell for_leases)
    : address(server),
      options(std::move(with)),
      supervisor(std::move(by)),
      buckets_(options.local_keys, options.local_gateways, random_seed()),
      leases(*this, options.lease_keys, random_seed(), std::move(for_leases)) {}

Result<internal::Answer> Client::Parts::ask(const protocol::Request& request,
                                            const CallOptions& call) {
  const nanoseconds wait = call.deadline.value_or(options.deadline);
  if (!internal::is_fitting_wait(wait)) {
    return internal::bad_argument("deadline of a call: 1 us to 1 hour");
  }
  if (supervisor->is_circuit_open()) {
    return tl::unexpected(Error{ErrorCode::circuit_open,
                                address + ": the server left too many calls unanswered; it is "
                                          "asked again as soon as it answers a PING"});
  }
  const Time start = Clock::now();
  auto answer = ask_within(request, start, start + wait);
  if (answer) {
    supervisor->on_answer();
  } else if (answer.error().code == ErrorCode::timeout) {
    count_one(timeouts_);
    // A call in a greater hurry than most says nothing about the server.
    if (wait >= options.deadline) supervisor->on_timeout();
  }
  return answer;
}

Result<internal::Answer> Client::Parts::ask_within(const protocol::Request& request, Time start,
                                                   Time deadline) {
  auto connection = supervisor->current();
  Result<Answer> answer = tl::unexpected(Error{ErrorCode::closed, address + ": not connected"});
  if (connection != nullptr) answer = connection->call(request, start, deadline);
  // A request that never left a connection which has ended, or whose server goes away, is asked
  // on another, once. One that has left may have been charged: its caller decides.
  if (!answer && !answer.error().maybe_charged &&
      (connection == nullptr || !connection->usable())) {
    auto fresh = supervisor->replaced(connection, answer.error(), deadline);
    if (!fresh) return tl::unexpected(std::move(fresh).error());
    connection = std::move(*fresh);
    answer = connection->call(request, Clock::now(), deadline);
  }
  // `expired` while we still wait: the two clocks have drifted apart by more than was allowed for
  // (a machine was suspended, say). Nothing was charged, and from now on the connection sends no
  // deadlines, so one repetition is right and enough.
  if (answer && answer->reply.status == protocol::Status::expired) {
    const Time now = Clock::now();
    if (now < deadline) answer = connection->call(request, now, deadline);
  }
  return answer;
}

Result<Decision> Client::Parts::decide(protocol::Request& request, const Limit& limit,
                                       const CallOptions& call) {
  request.cost = call.cost;
  request.priority = call.priority;
  request.partial = call.partial;
  return exchange(request, limit, call);
}

Result<Decision> Client::Parts::with_grant(protocol::Op op, const Limit& policy,
                                           std::string_view key, std::uint64_t grant,
                                           std::uint32_t cost, const CallOptions& call) {
  if (auto fine = internal::check(policy, key, call); !fine) {
    return tl::unexpected(std::move(fine).error());
  }
  if (!policy.is_policy()) return internal::bad_argument(kOnlyPolicies);
  if (cost == 0 && op != protocol::Op::settle) {
    return internal::bad_argument("the cost is at least 1");
  }
  if (grant == 0) return nothing_to_give_back(op, cost);
  auto request = internal::make_request(op, policy, key);
  request.cost = cost;
  request.grant = grant;
  return exchange(request, policy, call);
}

Result<Decision> Client::Parts::exchange(const protocol::Request& request, const Limit& limit,
                                         const CallOptions& call) {
  const Time start = Clock::now();
  const auto answer = ask(request, call);
  if (!answer) return tl::unexpected(answer.error());
  if (!protocol::is_decision(answer->reply.status)) {
    return tl::unexpected(internal::refusal_to_decide(*answer, address, &limit));
  }
  count_decision();
  Decision decision = internal::to_decision(answer->reply);
  const bool brings_grant = request.wants_grant || request.op == protocol::Op::acquire ||
                            request.op == protocol::Op::renew;
  if (!brings_grant || !decision.admitted()) return decision;
  const auto grant = protocol::read_grant(protocol::as_body(answer->text));
  if (!grant) {
    return tl::unexpected(
        Error{ErrorCode::protocol_error, address + ": no grant where one was due", true});
  }
  decision.grant = grant->id;
  decision.grant_expires = start + std::chrono::microseconds(grant->ttl_us);
  return decision;
}

Result<Decision> Client::Parts::or_fallback(Result<Decision> decision, Asks asks,
                                            const CallOptions& call) {
  if (decision || !is_absence(decision.error().code)) return decision;
  const ErrorCode why = decision.error().code;
  switch (call.on_failure.value_or(options.on_failure)) {
    case OnFailure::open:
      return let_through(asks, why);
    case OnFailure::closed:
      return refuse(why);
    case OnFailure::local:
      return decide_locally(asks, call.partial, why);
    case OnFailure::report:
      break;
  }
  return decision;
}

Decision Client::Parts::let_through(Asks asks, ErrorCode why) {
  count_one(fallback_open_);
  Decision decision;
  decision.status = Decision::Status::admitted;
  decision.source = Decision::Source::fallback_open;
  decision.failure = why;
  std::uint64_t granted = 0;
  for (const auto& ask : asks) granted += ask.cost;
  decision.granted = static_cast<std::uint32_t>(std::min<std::uint64_t>(granted, UINT32_MAX));
  return decision;
}

Decision Client::Parts::refuse(ErrorCode why) {
  count_one(fallback_closed_);
  Decision decision;
  decision.source = Decision::Source::fallback_closed;
  decision.failure = why;
  decision.retry_after = kClosedRetry;
  return decision;
}

Decision Client::Parts::decide_locally(Asks asks, bool partial, ErrorCode why) {
  const bool is_possible =
      !asks.empty() && std::all_of(asks.begin(), asks.end(),
                                   [](const auto& ask) { return ask.limit->count() != 0; });
  if (!is_possible) return refuse(why);
  Decision decision = buckets_.take(asks, partial, Clock::now());
  decision.failure = why;
  count_one(decision.admitted() ? local_admitted_ : local_refused_);
  return decision;
}

ClientCounters Client::Parts::read_counters() const noexcept {
  ClientCounters counters;
  counters.server_decisions = server_decisions_.load(std::memory_order_relaxed);
  counters.fallback_open = fallback_open_.load(std::memory_order_relaxed);
  counters.fallback_closed = fallback_closed_.load(std::memory_order_relaxed);
  counters.fallback_local_admitted = local_admitted_.load(std::memory_order_relaxed);
  counters.fallback_local_refused = local_refused_.load(std::memory_order_relaxed);
  counters.timeouts = timeouts_.load(std::memory_order_relaxed);
  const internal::LeaseCounters leased = leases.read();
  counters.leased = leased.leased;
  counters.lease_spent = leased.spent;
  counters.lease_returned = leased.returned;
  counters.lease_expired = leased.expired;
  counters.lease_refusals = leased.refusals;
  counters.circuit_opened = supervisor->circuit_opened();
  counters.connects = supervisor->connects();
  counters.failed_connects = supervisor->failed_connects();
  return counters;
}

}  // namespace pail
