// From the words of the public interface to those of the protocol and back; connection.hpp does the
// work.
#include <pail/client.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "client/src/connection.hpp"
#include "protocol/codec.hpp"
#include "protocol/stats.hpp"

namespace pail {
namespace {

using internal::Answer;
using internal::Clock;
using internal::Time;
using std::chrono::nanoseconds;

constexpr nanoseconds kMinWait = std::chrono::microseconds(1);
constexpr nanoseconds kMaxWait = std::chrono::hours(1);
constexpr std::size_t kMaxInFlight = 65'536;
constexpr nanoseconds kFirstPause = std::chrono::milliseconds(50);  // between attempts to connect
constexpr nanoseconds kLongestPause = std::chrono::seconds(1);
constexpr nanoseconds kCalm = kLongestPause;  // who lived so long is no crash loop
constexpr std::size_t kMaxStats = 65'536;     // that a server may tell
// What a call in a flooded connection may keep: see client.hpp on memory.
static_assert(protocol::kMaxRequestBytes <= 1100);

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

// The server answered that it did not decide; so nothing was charged.
Error refusal_to_decide(const Answer& answer, const std::string& address, const Limit* limit) {
  const protocol::Status status = answer.reply.status;
  std::string text = address + ": ";
  if (status == protocol::Status::unknown_policy && limit != nullptr) {
    text += "the server has no policy '" + limit->policy_name() + "'";
    if (!answer.text.empty()) text += " (" + answer.text + ")";
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

Stat::Kind kind_of(protocol::StatKind kind) {
  return kind == protocol::StatKind::counter ? Stat::Kind::counter
         : kind == protocol::StatKind::gauge ? Stat::Kind::gauge
                                             : Stat::Kind::other;
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

}  // namespace

namespace {
constexpr const char* kOnlyPolicies = "this is for a policy of the server, not for an inline rate";
}

struct Client::Parts {
  std::string address;
  ClientOptions options;

  [[nodiscard]] Result<std::shared_ptr<internal::Connection>> connect(Time deadline) const {
    internal::ConnectionOptions wanted;
    wanted.address = address;
    wanted.tcp_congestion = options.tcp_congestion;
    wanted.token = options.token;
    wanted.client_name = options.name;
    wanted.max_in_flight = options.max_in_flight;
    auto connection = internal::Connection::open(wanted, deadline);
    if (!connection) return tl::unexpected(std::move(connection).error());
    return std::shared_ptr<internal::Connection>(std::move(*connection));
  }

  [[nodiscard]] std::shared_ptr<internal::Connection> current() const {
    const std::lock_guard lock(mutex_);
    return connection_;
  }
  void start_with(std::shared_ptr<internal::Connection> connection) {
    connection_ = std::move(connection);
  }

  // `old` takes no more requests, for the reason `why`: the connection in its place, made by one
  // caller while the others go without. A dead server is not hammered: attempts, successful ones
  // too since a server may die right after HELLO, have pauses that double, and differ between
  // clients.
  [[nodiscard]] Result<std::shared_ptr<internal::Connection>> replaced(
      const std::shared_ptr<internal::Connection>& old, Error why, Time deadline) {
    std::unique_lock lock(mutex_);
    if (connection_ != old) return connection_;
    const Time now = Clock::now();
    if (!is_known_dead_) {
      is_known_dead_ = true;
      if (now - connected_at_ >= kCalm) pause_ = kFirstPause, next_attempt_ = now;
    }
    if (is_closed_ || is_connecting_ || now < next_attempt_) return tl::unexpected(std::move(why));
    is_connecting_ = true;
    lock.unlock();
    auto fresh = connect(std::min(deadline, now + options.connect_timeout));
    lock.lock();
    is_connecting_ = false;
    next_attempt_ = Clock::now() + pause_ + pause_ * (jitter_() % 512) / 1024;
    pause_ = std::min(2 * pause_, kLongestPause);
    if (!fresh) {
      return tl::unexpected(
          Error{ErrorCode::closed, why.text + "; connecting anew: " + fresh.error().text, false});
    }
    if (is_closed_) (*fresh)->close();
    connection_ = *fresh;
    connected_at_ = Clock::now();
    is_known_dead_ = false;
    return fresh;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    connection_->close();
  }
  // This connection cannot be trusted any more: the next call is to make another.
  void abandon() const { current()->close(); }
  [[nodiscard]] bool usable() const {
    const std::lock_guard lock(mutex_);
    return !is_closed_ && (connection_->usable() || connection_->draining());
  }

  // The answer, or an error that says whether the request may have been charged.
  Result<Answer> ask(const protocol::Request& request, const CallOptions& call) {
    const nanoseconds wait = call.deadline.value_or(options.deadline);
    if (!is_fitting_wait(wait)) return bad_argument("deadline of a call: 1 us to 1 hour");
    const Time start = Clock::now();
    const Time deadline = start + wait;
    auto connection = current();
    auto answer = connection->call(request, start, deadline);
    // A request that never left a connection which has ended, or whose server goes away, is asked
    // on another, once. One that has left may have been charged: its caller decides.
    if (!answer && !answer.error().maybe_charged && !connection->usable()) {
      auto fresh = replaced(connection, std::move(answer).error(), deadline);
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

  Result<Decision> decide(protocol::Request& request, const Limit& limit, const CallOptions& call) {
    request.cost = call.cost;
    request.priority = call.priority;
    request.partial = call.partial;
    return exchange(request, limit, call);
  }

  // What names a grant.
  Result<Decision> with_grant(protocol::Op op, const Limit& policy, std::string_view key,
                              std::uint64_t grant, std::uint32_t cost, const CallOptions& call) {
    if (auto fine = check(policy, key, call); !fine) return tl::unexpected(std::move(fine).error());
    if (!policy.is_policy()) return bad_argument(kOnlyPolicies);
    if (cost == 0 && op != protocol::Op::settle) return bad_argument("the cost is at least 1");
    auto request = make_request(op, policy, key);
    request.cost = cost;
    request.grant = grant;
    return exchange(request, policy, call);
  }

  // A request that is complete. Where it brings a grant, that is counted from before it was sent.
  Result<Decision> exchange(const protocol::Request& request, const Limit& limit,
                            const CallOptions& call) {
    const Time start = Clock::now();
    const auto answer = ask(request, call);
    if (!answer) return tl::unexpected(answer.error());
    if (!protocol::is_decision(answer->reply.status)) {
      return tl::unexpected(refusal_to_decide(*answer, address, &limit));
    }
    Decision decision = to_decision(answer->reply);
    const bool brings_grant = request.wants_grant || request.op == protocol::Op::acquire ||
                              request.op == protocol::Op::renew;
    if (!brings_grant || !decision.admitted()) return decision;
    const auto grant = protocol::read_grant(protocol::as_body(answer->text));
    if (!grant)
      return tl::unexpected(
          Error{ErrorCode::protocol_error, address + ": no grant where one was due", true});
    decision.grant = grant->id;
    decision.grant_expires = start + std::chrono::microseconds(grant->ttl_us);
    return decision;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<internal::Connection> connection_;
  bool is_connecting_ = false;
  bool is_closed_ = false;
  bool is_known_dead_ = false;  // connection_ ended, and somebody has noticed
  Time connected_at_ = Clock::now();
  Time next_attempt_{};
  nanoseconds pause_ = kFirstPause;
  std::minstd_rand jitter_{std::random_device{}()};
};

Client::Client(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(std::string_view address, ClientOptions options) {
  if (auto fine = check(options); !fine) return tl::unexpected(std::move(fine).error());
  auto parts = std::make_unique<Parts>();
  parts->address = address;
  parts->options = std::move(options);
  auto connection = parts->connect(Clock::now() + parts->options.connect_timeout);
  if (!connection) return tl::unexpected(std::move(connection).error());
  parts->start_with(std::move(*connection));
  return Client(std::move(parts));
}

Result<Decision> Client::take(const Limit& limit, std::string_view key,
                              const CallOptions& options) {
  if (auto fine = check(limit, key, options); !fine) return tl::unexpected(std::move(fine).error());
  if (options.cost == 0) {
    return bad_argument("the cost of a take is at least 1; peek() looks without taking");
  }
  if (options.settle_later && !limit.is_policy()) return bad_argument(kOnlyPolicies);
  auto request = make_request(protocol::Op::take, limit, key);
  request.wants_grant = options.settle_later;
  return parts_->decide(request, limit, options);
}

Result<Decision> Client::peek(const Limit& limit, std::string_view key,
                              const CallOptions& options) {
  if (auto fine = check(limit, key, options); !fine) return tl::unexpected(std::move(fine).error());
  auto request = make_request(protocol::Op::peek, limit, key);
  return parts_->decide(request, limit, options);
}

Result<LayersDecision> Client::take_all(std::span<const Layer> layers, const CallOptions& options) {
  if (layers.empty() || layers.size() > protocol::kMaxLayers) {
    return bad_argument("a take_all has 1 to 8 layers");
  }
  std::array<protocol::Layer, protocol::kMaxLayers> told;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    if (auto fine = check(layer.limit, layer.key, options); !fine) {
      return tl::unexpected(std::move(fine).error());
    }
    if (!layer.limit.is_policy()) return bad_argument(kOnlyPolicies);
    if (layer.cost == 0) return bad_argument("the cost of a layer is at least 1");
    told[i] = {layer.limit.policy_id(), layer.cost, protocol::as_body(layer.key)};
  }
  std::array<std::byte, protocol::kMaxLayersBytes> room;
  const auto used = std::span<const protocol::Layer>(told).first(layers.size());
  protocol::Request request;
  request.op = protocol::Op::take_all;
  request.cost = static_cast<std::uint32_t>(layers.size());
  request.priority = options.priority;
  request.key = std::span(room).first(protocol::encode(used, room));
  const auto answer = parts_->ask(request, options);
  if (!answer) return tl::unexpected(answer.error());
  const std::size_t named = answer->reply.layer;
  if (!protocol::is_decision(answer->reply.status)) {
    const Limit* const limit = named < layers.size() ? &layers[named].limit : nullptr;
    return tl::unexpected(refusal_to_decide(*answer, parts_->address, limit));
  }
  std::array<protocol::LayerState, protocol::kMaxLayers> states;
  const auto count = protocol::read_layer_states(protocol::as_body(answer->text), states);
  LayersDecision all;
  all.decision = to_decision(answer->reply);
  if (!count || *count != layers.size() ||
      (named < layers.size()) == (answer->reply.status == protocol::Status::ok)) {
    return tl::unexpected(Error{ErrorCode::protocol_error,
                                parts_->address + ": layers that do not fit the request", true});
  }
  if (named < layers.size()) all.refusing = named;
  for (const protocol::LayerState& state : std::span(states).first(*count)) {
    all.layers.push_back({state.remaining, state.limit, to_duration(state.reset_ns)});
  }
  return all;
}

Result<Decision> Client::settle(const Limit& policy, std::string_view key, std::uint64_t grant,
                                std::uint32_t actual, const CallOptions& options) {
  return parts_->with_grant(protocol::Op::settle, policy, key, grant, actual, options);
}

Result<Decision> Client::acquire(const Limit& policy, std::string_view key,
                                 const CallOptions& options) {
  if (auto fine = check(policy, key, options); !fine)
    return tl::unexpected(std::move(fine).error());
  if (!policy.is_policy()) return bad_argument(kOnlyPolicies);
  if (options.cost == 0) return bad_argument("the cost of an acquire is at least 1");
  if (options.partial) return bad_argument("permits are acquired all or none: no partial");
  auto request = make_request(protocol::Op::acquire, policy, key);
  return parts_->decide(request, policy, options);
}

Result<Decision> Client::renew(const Limit& policy, std::string_view key, std::uint64_t grant,
                               const CallOptions& options) {
  return parts_->with_grant(protocol::Op::renew, policy, key, grant, options.cost, options);
}

Result<Decision> Client::release(const Limit& policy, std::string_view key, std::uint64_t grant,
                                 const CallOptions& options) {
  return parts_->with_grant(protocol::Op::release, policy, key, grant, options.cost, options);
}

Result<void> Client::reset(const Limit& limit, std::string_view key, const CallOptions& options) {
  if (auto fine = check(limit, key, options); !fine) return tl::unexpected(std::move(fine).error());
  const auto answer = parts_->ask(make_request(protocol::Op::reset, limit, key), options);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->reply.status != protocol::Status::ok) {
    return tl::unexpected(refusal_to_decide(*answer, parts_->address, &limit));
  }
  return {};
}

Result<nanoseconds> Client::ping(const CallOptions& options) {
  const Time start = Clock::now();
  const auto answer = parts_->ask(protocol::Request{}, options);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->reply.status != protocol::Status::ok) {
    return tl::unexpected(refusal_to_decide(*answer, parts_->address, nullptr));
  }
  return Clock::now() - start;
}

Result<ServerStats> Client::stats(std::uint32_t shard, const CallOptions& options) {
  ServerStats stats;
  for (std::uint32_t remaining = 1; remaining != 0;) {
    protocol::Request request;
    request.op = protocol::Op::stats;
    request.policy = shard;
    request.cost = static_cast<std::uint32_t>(stats.numbers.size());
    const auto answer = parts_->ask(request, options);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->reply.status != protocol::Status::ok) {
      return tl::unexpected(refusal_to_decide(*answer, parts_->address, nullptr));
    }
    if (!append_page(*answer, stats)) {
      parts_->abandon();
      return tl::unexpected(Error{ErrorCode::protocol_error,
                                  parts_->address + ": the server's numbers are malformed"});
    }
    remaining = answer->reply.remaining;
  }
  return stats;
}

bool Client::usable() const noexcept {
  return parts_ != nullptr && parts_->usable();
}

void Client::close() noexcept {
  if (parts_ != nullptr) parts_->close();
}

}  // namespace pail
