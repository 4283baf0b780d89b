// The public calls: each checks what it was given, makes a request of it, and hands it to its
// parts.
#include <pail/client.hpp>

#include <string>
#include <utility>

#include "client/src/parts.hpp"
#include "protocol/codec.hpp"

namespace pail {

using internal::Clock;
using internal::Time;
using std::chrono::nanoseconds;

Client::Client(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::connect(std::string_view address, ClientOptions options) {
  if (auto fine = internal::check(options); !fine) return tl::unexpected(std::move(fine).error());
  auto supervisor = internal::Supervisor::make({.address = std::string(address),
                                                .tcp_congestion = options.tcp_congestion,
                                                .token = options.token,
                                                .client_name = options.name,
                                                .max_in_flight = options.max_in_flight,
                                                .connect_timeout = options.connect_timeout,
                                                .circuit_timeouts = options.circuit_timeouts});
  if (!supervisor) return tl::unexpected(std::move(supervisor).error());
  if (auto connected = (*supervisor)->connect_now(); !connected) {
    // What is wrong with the address or the options will be wrong for ever.
    const bool may_come = connected.error().code != ErrorCode::bad_argument;
    if (options.must_connect || !may_come) return tl::unexpected(std::move(connected).error());
  }
  auto bell = internal::Bell::make();
  if (!bell) return tl::unexpected(std::move(bell).error());
  return Client(std::make_unique<Parts>(address, std::move(options), std::move(*supervisor),
                                        std::move(*bell)));
}

Result<Decision> Client::take(const Limit& limit, std::string_view key,
                              const CallOptions& options) {
  if (auto fine = internal::check(limit, key, options); !fine)
    return tl::unexpected(std::move(fine).error());
  if (options.cost == 0) {
    return internal::bad_argument("the cost of a take is at least 1; peek() looks without taking");
  }
  if (options.settle_later && !limit.is_policy()) return internal::bad_argument(kOnlyPolicies);
  if (auto leased = parts_->leases.take(limit, key, options)) return *leased;
  auto request = internal::make_request(protocol::Op::take, limit, key);
  request.wants_grant = options.settle_later;
  const Time start = Clock::now();
  auto decision = parts_->decide(request, limit, options);
  if (decision) parts_->leases.learn(limit, key, options, *decision, start);
  const internal::LocalBuckets::Ask local{&limit, key, options.cost};
  return parts_->or_fallback(std::move(decision), {&local, 1}, options);
}

Result<Decision> Client::peek(const Limit& limit, std::string_view key,
                              const CallOptions& options) {
  if (auto fine = internal::check(limit, key, options); !fine)
    return tl::unexpected(std::move(fine).error());
  auto request = internal::make_request(protocol::Op::peek, limit, key);
  return parts_->decide(request, limit, options);
}

Result<LayersDecision> Client::take_all(std::span<const Layer> layers, const CallOptions& options) {
  if (layers.empty() || layers.size() > protocol::kMaxLayers) {
    return internal::bad_argument("a take_all has 1 to 8 layers");
  }
  for (const Layer& layer : layers) {
    if (auto fine = internal::check(layer.limit, layer.key, options); !fine) {
      return tl::unexpected(std::move(fine).error());
    }
    if (!layer.limit.is_policy()) return internal::bad_argument(kOnlyPolicies);
    if (layer.cost == 0) return internal::bad_argument("the cost of a layer is at least 1");
  }
  return parts_->take_all(layers, options);
}

Result<Decision> Client::settle(const Limit& policy, std::string_view key, std::uint64_t grant,
                                std::uint32_t actual, const CallOptions& options) {
  return parts_->with_grant(protocol::Op::settle, policy, key, grant, actual, options);
}

Result<Decision> Client::acquire(const Limit& policy, std::string_view key,
                                 const CallOptions& options) {
  if (auto fine = internal::check(policy, key, options); !fine)
    return tl::unexpected(std::move(fine).error());
  if (!policy.is_policy()) return internal::bad_argument(kOnlyPolicies);
  if (options.cost == 0) return internal::bad_argument("the cost of an acquire is at least 1");
  auto request = internal::make_request(protocol::Op::acquire, policy, key);
  auto decision = parts_->decide(request, policy, options);
  const OnFailure on_failure = options.on_failure.value_or(parts_->options.on_failure);
  if (on_failure == OnFailure::local) {  // no bucket counts permits
    return parts_->or_fallback(std::move(decision), {}, options);
  }
  const internal::LocalBuckets::Ask ask{&policy, key, options.cost};
  return parts_->or_fallback(std::move(decision), {&ask, 1}, options);
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
  if (auto fine = internal::check(limit, key, options); !fine)
    return tl::unexpected(std::move(fine).error());
  const auto answer = parts_->ask(internal::make_request(protocol::Op::reset, limit, key), options);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->reply.status != protocol::Status::ok) {
    return tl::unexpected(internal::refusal_to_decide(*answer, parts_->address, &limit));
  }
  return {};
}

Result<nanoseconds> Client::ping(const CallOptions& options) {
  const Time start = Clock::now();
  const auto answer = parts_->ask(protocol::Request{}, options);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->reply.status != protocol::Status::ok) {
    return tl::unexpected(internal::refusal_to_decide(*answer, parts_->address, nullptr));
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
      return tl::unexpected(internal::refusal_to_decide(*answer, parts_->address, nullptr));
    }
    if (!internal::append_page(*answer, stats)) {
      parts_->supervisor->abandon();
      return tl::unexpected(Error{ErrorCode::protocol_error,
                                  parts_->address + ": the server's numbers are malformed"});
    }
    remaining = answer->reply.remaining;
  }
  return stats;
}

Result<PolicyAnswer> Client::policy(std::span<const std::string> words,
                                    const CallOptions& options) {
  std::string key;
  for (const std::string& word : words) {
    if (word.find('\0') != std::string::npos) {
      return internal::bad_argument("a word has a zero byte");
    }
    if (&word != words.data()) key += '\0';
    key += word;
  }
  if (key.empty() || key.size() > protocol::kMaxKeyBytes) {
    return internal::bad_argument("the words have 1 to 1024 bytes in all");
  }
  PolicyAnswer result;
  std::uint32_t lines = 0;
  for (std::uint32_t remaining = 1; remaining != 0;) {
    protocol::Request request;
    request.op = protocol::Op::policy;
    request.cost = lines;
    request.key = protocol::as_body(key);
    const auto answer = parts_->ask(request, options);
    if (!answer) return tl::unexpected(answer.error());
    const protocol::Reply& reply = answer->reply;
    if (reply.status != protocol::Status::ok) {
      return tl::unexpected(internal::refusal_to_decide(*answer, parts_->address, nullptr));
    }
    if (lines != 0 && reply.limit != result.version) {
      return tl::unexpected(
          Error{ErrorCode::overloaded, "the policies changed while they were read: ask again"});
    }
    if (reply.granted == 0 && reply.remaining != 0) {
      parts_->supervisor->abandon();
      return tl::unexpected(
          Error{ErrorCode::protocol_error, parts_->address + ": the server's answer has no end"});
    }
    result.version = reply.limit;
    result.text += answer->text;
    lines += reply.granted;
    remaining = reply.remaining;
  }
  return result;
}

ClientCounters Client::counters() const noexcept {
  return parts_ != nullptr ? parts_->read_counters() : ClientCounters{};
}

bool Client::usable() const noexcept {
  return parts_ != nullptr && parts_->supervisor->usable();
}

void Client::close() noexcept {
  if (parts_ == nullptr) return;
  parts_->leases.finish();
  parts_->supervisor->close();
}

}  // namespace pail
