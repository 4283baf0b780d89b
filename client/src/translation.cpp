#include "client/src/translation.hpp"

#include <algorithm>
#include <utility>

#include "protocol/codec.hpp"
#include "protocol/stats.hpp"

namespace pail::internal {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kMinWait = std::chrono::microseconds(1);
constexpr nanoseconds kMaxWait = std::chrono::hours(1);
constexpr std::size_t kMaxInFlight = 65'536;
constexpr std::uint32_t kMaxGateways = 256;
constexpr std::size_t kMaxLocalKeys = std::size_t{1} << 24;
constexpr std::size_t kMaxLeaseKeys = 65'536;
constexpr std::size_t kMaxStats = 65'536;  // that a server may tell
// What a call in a flooded connection may keep: see client.hpp on memory.
static_assert(protocol::kMaxRequestBytes <= 1100);

ErrorCode error_code(protocol::Status status) {
  switch (status) {
    case protocol::Status::table_full:
      return ErrorCode::table_full;
    case protocol::Status::expired:
      return ErrorCode::timeout;
    case protocol::Status::unknown_policy:
      return ErrorCode::unknown_policy;
    case protocol::Status::bad_request:
      return ErrorCode::bad_argument;
    case protocol::Status::unauthorized:
      return ErrorCode::unauthorized;
    case protocol::Status::overloaded:
      return ErrorCode::overloaded;
    case protocol::Status::not_supported:
      return ErrorCode::not_supported;
    case protocol::Status::ok:
    case protocol::Status::denied:
    case protocol::Status::shed:
    case protocol::Status::never:
      break;  // decisions
  }
  return ErrorCode::protocol_error;
}

Stat::Kind kind_of(protocol::StatKind kind) {
  return kind == protocol::StatKind::counter ? Stat::Kind::counter
         : kind == protocol::StatKind::gauge ? Stat::Kind::gauge
                                             : Stat::Kind::other;
}

}  // namespace

tl::unexpected<Error> bad_argument(std::string text) {
  return tl::unexpected(Error{ErrorCode::bad_argument, std::move(text)});
}

bool is_fitting_wait(nanoseconds wait) {
  return wait >= kMinWait && wait <= kMaxWait;
}

Result<void> check(const ClientOptions& options) {
  if (!is_fitting_wait(options.deadline)) return bad_argument("deadline: 1 us to 1 hour");
  if (!is_fitting_wait(options.connect_timeout)) {
    return bad_argument("connect_timeout: 1 us to 1 hour");
  }
  if (options.max_in_flight < 1 || options.max_in_flight > kMaxInFlight) {
    return bad_argument("max_in_flight: 1 to 65536");
  }
  if (options.local_gateways < 1 || options.local_gateways > kMaxGateways) {
    return bad_argument("local_gateways: 1 to 256");
  }
  if (options.lease_keys > kMaxLeaseKeys) return bad_argument("lease_keys: 65536 at most");
  if (options.local_keys > kMaxLocalKeys) return bad_argument("local_keys: 2^24 at most");
  if (options.token.size() > protocol::kMaxTokenBytes) {
    return bad_argument("token: 256 bytes at most");
  }
  const bool is_printable = std::all_of(options.name.begin(), options.name.end(),
                                        [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (options.name.size() > protocol::kMaxClientNameBytes || !is_printable) {
    return bad_argument("name: 64 printable ASCII characters at most");
  }
  return {};
}

Result<void> check(const Limit& limit, std::string_view key, const CallOptions& options) {
  if (key.size() < protocol::kMinKeyBytes || key.size() > protocol::kMaxKeyBytes) {
    return bad_argument("a key has 1 to 1024 bytes; this one has " + std::to_string(key.size()));
  }
  if (!limit.is_policy()) {
    if (limit.count() == 0) return bad_argument("the count of a rate is at least 1");
    if (limit.burst() == 0) return bad_argument("the burst is at least 1");
    if (limit.period() < nanoseconds(1) || limit.period() > std::chrono::hours(24) * 366) {
      return bad_argument("the period of a rate is 1 ns to 366 days");
    }
  }
  if (options.priority > protocol::kMaxPriority) return bad_argument("priority: 0 to 3");
  return {};
}

protocol::Request make_request(protocol::Op op, const Limit& limit, std::string_view key) {
  protocol::Request request;
  request.op = op;
  request.key = protocol::as_body(key);
  request.policy = limit.policy_id();
  if (!limit.is_policy()) {
    request.has_inline_limit = true;
    request.inline_limit = {static_cast<std::uint64_t>(limit.period().count()), limit.count(),
                            limit.burst()};
  }
  return request;
}

// The server answered that it did not decide; so nothing was charged.
Error refusal_to_decide(const Answer& answer, const std::string& address, const Limit* limit) {
  const protocol::Status status = answer.reply.status;
  std::string text = address + ": ";
  if (status == protocol::Status::unknown_policy && limit != nullptr) {
    text += "the server has no policy '" + limit->policy_name() + "'";
  } else if (!answer.text.empty()) {
    text += answer.text;
  } else {
    text += std::string(protocol::name(status));
  }
  return {error_code(status), std::move(text), false};
}

nanoseconds to_duration(std::uint64_t wait_ns) {
  constexpr auto kMost = static_cast<std::uint64_t>(nanoseconds::max().count());
  return nanoseconds(static_cast<std::int64_t>(std::min(wait_ns, kMost)));
}

Decision to_decision(const protocol::Reply& reply) {
  Decision decision;
  decision.granted = reply.granted;
  decision.remaining = reply.remaining;
  decision.limit = reply.limit;
  decision.reset_after = to_duration(reply.reset_ns);
  if (reply.status == protocol::Status::ok) {
    decision.status = Decision::Status::admitted;
    decision.hold = to_duration(reply.wait_ns);
  } else if (reply.status == protocol::Status::never) {
    decision.status = Decision::Status::never;
    decision.retry_after = Decision::kForever;
  } else {
    decision.status =
        reply.status == protocol::Status::shed ? Decision::Status::shed : Decision::Status::denied;
    decision.retry_after = to_duration(reply.wait_ns);
  }
  return decision;
}

// False: the page breaks the protocol, or nothing ends.
bool append_page(const Answer& page, ServerStats& stats) {
  const std::size_t before = stats.numbers.size();
  protocol::Bytes body = protocol::as_body(page.text);
  while (!body.empty()) {
    const auto stat = protocol::take_stat(body);
    if (!stat) return false;
    stats.numbers.push_back({kind_of(stat->kind), std::string(stat->name), stat->value});
  }
  stats.shards = page.reply.limit;
  const std::size_t count = stats.numbers.size() - before;
  return count == page.reply.granted && (count != 0 || page.reply.remaining == 0) &&
         stats.numbers.size() <= kMaxStats;
}

}  // namespace pail::internal
