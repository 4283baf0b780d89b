#include "client/src/lease_keeper.hpp"

#include <poll.h>

#include <system_error>

#include "client/src/parts.hpp"
#include "protocol/codec.hpp"

namespace pail {
namespace {

using internal::Clock;
using internal::LeaseCache;
using internal::Time;
using std::chrono::nanoseconds;

constexpr nanoseconds kSweepEvery = std::chrono::milliseconds(50);
constexpr nanoseconds kIdle = std::chrono::hours(1);
constexpr int kFarewellDeadlines = 4;

}  // namespace

LeaseKeeper::LeaseKeeper(Client::Parts& parts, std::size_t keys, std::uint64_t seed,
                         internal::Bell bell)
    : parts_(parts),
      cache_(keys != 0 ? std::make_unique<LeaseCache>(keys, seed) : nullptr),
      bell_(std::move(bell)) {}

LeaseKeeper::~LeaseKeeper() {
  finish();
}

std::optional<Decision> LeaseKeeper::take(const Limit& limit, std::string_view key,
                                          const CallOptions& call) noexcept {
  if (cache_ == nullptr || !may_be_leased(limit, call)) return std::nullopt;
  bool is_hungry = false;
  auto decision =
      cache_->take(limit.policy_id(), key, call.cost, call.priority, Clock::now(), is_hungry);
  if (is_hungry) bell_.ring();
  return decision;
}

void LeaseKeeper::learn(const Limit& limit, std::string_view key, const CallOptions& call,
                        const Decision& decision, Time sent_at) {
  if (cache_ == nullptr || !may_be_leased(limit, call)) return;
  if (!cache_->on_server_decision(limit.policy_id(), key, call.cost, call.priority, decision,
                                  sent_at)) {
    return;
  }
  start();
  bell_.ring();
}

// Where no thread can be had, nothing is leased, and all else works.
void LeaseKeeper::start() {
  const std::lock_guard lock(mutex_);
  if (thread_.joinable() || is_over_) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
  }
}

void LeaseKeeper::run() {
  while (!is_over_) {
    while (!is_over_) {
      const auto errand = cache_->next_errand(Clock::now());
      if (!errand) break;
      fetch(*errand);
    }
    const bool is_any_live = cache_->sweep(Clock::now());
    wait_for_bell(is_any_live ? kSweepEvery : kIdle);
  }
}

void LeaseKeeper::fetch(const LeaseCache::Errand& errand) {
  protocol::Request request;
  request.op = protocol::Op::lease;
  request.policy = errand.policy;
  request.cost = errand.tokens;
  request.key = protocol::as_body(errand.key);
  LeaseCache::Lease lease;
  lease.sent_at = Clock::now();
  const auto answer = parts_.ask(request, {});
  if (!answer) return cache_->on_failure(errand.slot, Clock::now());
  const protocol::Reply& reply = answer->reply;
  switch (reply.status) {
    case protocol::Status::ok:
      // Without a grant, as from a server that does not lease: ttl 0.
      if (const auto grant = protocol::read_grant(protocol::as_body(answer->text))) {
        lease.grant = grant->id;
        lease.ttl = std::chrono::microseconds(grant->ttl_us);
      }
      lease.granted = lease.ttl.count() != 0 ? reply.granted : 0;
      lease.remaining = reply.remaining;
      lease.limit = reply.limit;
      return cache_->on_lease(errand.slot, lease);
    case protocol::Status::not_supported:
      return cache_->on_lease(errand.slot, lease);
    case protocol::Status::denied:
    case protocol::Status::shed:
      return cache_->on_refusal(errand.slot, internal::to_duration(reply.wait_ns), lease.sent_at);
    case protocol::Status::never:
    case protocol::Status::table_full:
    case protocol::Status::expired:
    case protocol::Status::unknown_policy:
    case protocol::Status::bad_request:
    case protocol::Status::unauthorized:
    case protocol::Status::overloaded:
      return cache_->on_failure(errand.slot, Clock::now());
  }
}

void LeaseKeeper::finish() noexcept {
  if (cache_ == nullptr || is_over_.exchange(true)) return;
  bell_.ring();
  {
    const std::lock_guard lock(mutex_);
    if (thread_.joinable()) thread_.join();
  }
  try {
    give_back();
  } catch (const std::bad_alloc&) {
    // Then it lapses.
  }
}

void LeaseKeeper::give_back() {
  const Time until = Clock::now() + kFarewellDeadlines * parts_.options.deadline;
  for (const LeaseCache::Errand& errand : cache_->take_out(Clock::now())) {
    if (!parts_.supervisor->usable() || Clock::now() >= until) return;
    protocol::Request request;
    request.op = protocol::Op::give_back;
    request.policy = errand.policy;
    request.cost = errand.tokens;
    request.grant = errand.grant;
    request.key = protocol::as_body(errand.key);
    const auto answer = parts_.ask(request, {});
    if (answer && answer->reply.status == protocol::Status::ok) {
      cache_->on_returned(std::min(answer->reply.granted, errand.tokens));
    }
  }
}

internal::LeaseCounters LeaseKeeper::read() const {
  return cache_ != nullptr ? cache_->read() : internal::LeaseCounters{};
}

void LeaseKeeper::wait_for_bell(nanoseconds at_most) noexcept {
  pollfd watched{bell_.descriptor(), POLLIN, 0};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
  if (::poll(&watched, 1, static_cast<int>(ms)) > 0) bell_.silence();
}

}  // namespace pail
