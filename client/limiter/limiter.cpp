#include <pail/limiter.hpp>

#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "server/engine/engine.hpp"
#include "server/policy/policy_text.hpp"

namespace pail {
namespace {

using std::chrono::nanoseconds;

constexpr const char* kOnlyPolicies = "this is for a policy of the limiter, not for an inline rate";

tl::unexpected<Error> bad_argument(std::string text) {
  return tl::unexpected(Error{ErrorCode::bad_argument, std::move(text)});
}

// Time since the limiter was made, and what UTC was then.
class Clock {
 public:
  [[nodiscard]] engine::Ticks now() const noexcept {
    return engine::ticks_from_ns(read_ns(CLOCK_MONOTONIC) - epoch_ns_);
  }
  [[nodiscard]] std::uint64_t utc_epoch_ns() const noexcept { return utc_ns_; }
  [[nodiscard]] engine::ClockSource source() const noexcept {
    return {[](const void* self) noexcept { return static_cast<const Clock*>(self)->now(); }, this};
  }

 private:
  [[nodiscard]] static std::uint64_t read_ns(clockid_t id) noexcept {
    timespec time{};
    ::clock_gettime(id, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  }
  const std::uint64_t epoch_ns_ = read_ns(CLOCK_MONOTONIC);
  const std::uint64_t utc_ns_ = read_ns(CLOCK_REALTIME);
};

nanoseconds to_duration(std::uint64_t wait_ns) {
  constexpr auto kMost = static_cast<std::uint64_t>(nanoseconds::max().count());
  return nanoseconds(static_cast<std::int64_t>(std::min(wait_ns, kMost)));
}

Result<Decision> told(const engine::Decision& decision, const Limit& limit) {
  Decision told;
  told.source = Decision::Source::limiter;
  told.granted = decision.granted;
  told.remaining = decision.remaining;
  told.limit = decision.limit;
  told.reset_after = to_duration(decision.reset_ns);
  told.retry_after = to_duration(decision.wait_ns);
  switch (decision.verdict) {
    case engine::Verdict::admitted:
      told.status = Decision::Status::admitted;
      told.hold = std::exchange(told.retry_after, nanoseconds(0));
      return told;
    case engine::Verdict::denied:
      told.status = Decision::Status::denied;
      return told;
    case engine::Verdict::shed:
      told.status = Decision::Status::shed;
      return told;
    case engine::Verdict::never:
      told.status = Decision::Status::never;
      told.retry_after = Decision::kForever;
      return told;
    case engine::Verdict::table_full:
      return tl::unexpected(Error{ErrorCode::table_full, "no room for a new key"});
    case engine::Verdict::unknown_policy:
      return tl::unexpected(Error{ErrorCode::unknown_policy,
                                  "the limiter has no policy '" + limit.policy_name() + "'"});
    case engine::Verdict::bad_request:
      return bad_argument(std::string(decision.reason));
    case engine::Verdict::busy:
      return tl::unexpected(Error{ErrorCode::overloaded, "something is just being given back"});
  }
  return bad_argument("no such verdict");
}

engine::Request to_engine(const Limit& limit, std::string_view key, const CallOptions& options) {
  engine::Request request;
  request.priority = options.priority;
  request.partial = options.partial;
  request.cost = options.cost;
  request.key = std::as_bytes(std::span(key));
  request.policy = limit.policy_id();
  request.has_inline_rate = !limit.is_policy();
  if (request.has_inline_rate) {
    request.inline_rate = {
        static_cast<std::uint64_t>(std::max<std::int64_t>(limit.period().count(), 0)),
        limit.count(), limit.burst()};
  }
  return request;
}

}  // namespace

struct Limiter::Parts {
  explicit Parts(engine::Options options) : engine(with_time(std::move(options))) {
    const unsigned wanted = std::clamp(2 * std::thread::hardware_concurrency(), 4u, 64u);
    for (unsigned i = 0; i < wanted; ++i) {
      seats.push_back(std::make_unique<Seat>(engine.enroll(clock.source())));
    }
  }

  // By one of the workers, which sleeps otherwise and so holds up nobody.
  template <class Use>
  void with_worker(Use&& use) noexcept {
    std::size_t at = std::hash<std::thread::id>{}(std::this_thread::get_id()) % seats.size();
    for (std::size_t tries = 1; seats[at]->is_taken.exchange(true, std::memory_order_acquire);
         ++tries) {
      at = (at + 1) % seats.size();
      if (tries % seats.size() == 0) std::this_thread::yield();
    }
    engine::Worker& worker = *seats[at]->worker;
    worker.online();
    const engine::Ticks now = clock.now();
    use(worker, now);
    (void)worker.end_turn(now);
    worker.offline();
    seats[at]->is_taken.store(false, std::memory_order_release);
  }

  [[nodiscard]] engine::Decision decide(const engine::Request& request) noexcept {
    engine::Decision decision;
    with_worker([&](engine::Worker& worker, engine::Ticks now) {
      worker.decide({&request, 1}, now, {&decision, 1});
    });
    return decision;
  }

  // What brings a grant, which is counted from before it was asked for.
  template <class Use>
  [[nodiscard]] Result<Decision> with_grant(const Limit& policy, std::uint64_t id, Use&& use) {
    const auto start = std::chrono::steady_clock::now();
    engine::Decision decided;
    engine::Grant grant{.id = id};
    with_worker(
        [&](engine::Worker& worker, engine::Ticks now) { use(worker, now, decided, grant); });
    auto decision = told(decided, policy);
    if (!decision || !decision->admitted()) return decision;
    decision->grant = grant.id;
    decision->grant_expires = start + to_duration(grant.ttl_ns);
    return decision;
  }

  engine::Options with_time(engine::Options options) const {
    options.utc_epoch_ns = clock.utc_epoch_ns();
    return options;
  }

  struct alignas(64) Seat {
    explicit Seat(std::unique_ptr<engine::Worker> one) : worker(std::move(one)) {
      worker->offline();
    }
    std::atomic<bool> is_taken{false};  // acquire and release: the worker's plain fields
    std::unique_ptr<engine::Worker> worker;
  };

  Clock clock;
  engine::Engine engine;
  std::vector<std::unique_ptr<Seat>> seats;  // fixed once made; workers go before the engine
};

Limiter::Limiter(std::unique_ptr<Parts> parts) noexcept : parts_(std::move(parts)) {}
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;
Limiter::~Limiter() = default;

Result<Limiter> Limiter::make(const LimiterOptions& options) {
  engine::Options wanted;
  wanted.memory_limit_bytes = options.memory_limit_bytes;
  wanted.on_full = options.admit_when_full ? engine::OnFull::admit : engine::OnFull::refuse;
  for (const std::string& line : options.policies) {
    auto spec = policy::parse_policy_text(line);
    if (!spec) return bad_argument("policy \"" + line + "\": " + spec.error());
    wanted.policies.push_back(std::move(*spec));
  }
  if (std::string fault = engine::check_policies(wanted.policies); !fault.empty()) {
    return bad_argument(std::move(fault));
  }
  try {
    return Limiter(std::make_unique<Parts>(std::move(wanted)));
  } catch (const std::exception& problem) {
    return tl::unexpected(Error{ErrorCode::system, problem.what()});
  }
}

Result<Decision> Limiter::take(const Limit& limit, std::string_view key,
                               const CallOptions& options) {
  if (options.cost == 0) {
    return bad_argument("the cost of a take is at least 1; peek() looks without taking");
  }
  if (options.settle_later) return bad_argument("a limiter in process settles nothing later");
  return told(parts_->decide(to_engine(limit, key, options)), limit);
}

Result<Decision> Limiter::peek(const Limit& limit, std::string_view key,
                               const CallOptions& options) {
  engine::Request request = to_engine(limit, key, options);
  request.action = engine::Action::peek;
  return told(parts_->decide(request), limit);
}

Result<void> Limiter::reset(const Limit& limit, std::string_view key, const CallOptions&) {
  engine::Request request = to_engine(limit, key, {});
  request.action = engine::Action::reset;
  const auto decision = told(parts_->decide(request), limit);
  if (!decision) return tl::unexpected(decision.error());
  return {};
}

Result<LayersDecision> Limiter::take_all(std::span<const Layer> layers,
                                         const CallOptions& options) {
  if (layers.empty() || layers.size() > engine::kMaxLayers) {
    return bad_argument("a take_all has 1 to 8 layers");
  }
  std::array<engine::Layer, engine::kMaxLayers> asked;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].limit.is_policy()) return bad_argument(kOnlyPolicies);
    asked[i] = {layers[i].limit.policy_id(), layers[i].cost,
                std::as_bytes(std::span(layers[i].key))};
  }
  engine::LayersDecision decided;
  parts_->with_worker([&](engine::Worker& worker, engine::Ticks now) {
    worker.take_all(std::span(asked).first(layers.size()), options.priority, now, decided);
  });
  const std::size_t named = decided.layer;
  const bool names_one = named < layers.size();
  auto decision = told(decided.decision, layers[names_one ? named : 0].limit);
  if (!decision) return tl::unexpected(std::move(decision).error());
  LayersDecision all;
  all.decision = *decision;
  if (names_one) all.refusing = named;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const engine::LayerState& state = decided.layers[i];
    all.layers.push_back({state.remaining, state.limit, to_duration(state.reset_ns)});
  }
  return all;
}

Result<Decision> Limiter::acquire(const Limit& policy, std::string_view key,
                                  const CallOptions& options) {
  if (options.partial) return bad_argument("permits are acquired all or none: no partial");
  return parts_->with_grant(policy, 0,
                            [&](engine::Worker& worker, engine::Ticks now,
                                engine::Decision& decided, engine::Grant& grant) {
                              worker.acquire(to_engine(policy, key, options), now, decided, grant);
                            });
}

Result<Decision> Limiter::renew(const Limit& policy, std::string_view key, std::uint64_t id,
                                const CallOptions& options) {
  return parts_->with_grant(policy, id,
                            [&](engine::Worker& worker, engine::Ticks now,
                                engine::Decision& decided, engine::Grant& grant) {
                              worker.renew(to_engine(policy, key, options), now, decided, grant);
                            });
}

Result<Decision> Limiter::release(const Limit& policy, std::string_view key, std::uint64_t grant,
                                  const CallOptions& options) {
  engine::Decision decided;
  parts_->with_worker([&](engine::Worker& worker, engine::Ticks now) {
    worker.release(to_engine(policy, key, options), grant, now, decided);
  });
  return told(decided, policy);
}

}  // namespace pail
