// What a Client is made of: the supervisor of its connection, the buckets for when there is none,
// and the counts. One call goes through ask(): at most two connections, within its deadline.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <pail/client.hpp>
#include "client/src/lease_keeper.hpp"
#include "client/src/local_buckets.hpp"
#include "client/src/supervisor.hpp"
#include "client/src/translation.hpp"

namespace pail {

inline constexpr const char* kOnlyPolicies =
    "this is for a policy of the server, not for an inline rate";

struct Client::Parts {
  using Answer = internal::Answer;
  using Asks = std::span<const internal::LocalBuckets::Ask>;

  Parts(std::string_view server, ClientOptions with, std::unique_ptr<internal::Supervisor> by,
        internal::Bell for_leases);

  // The answer, or an error that says whether the request may have been charged.
  [[nodiscard]] Result<Answer> ask(const protocol::Request& request, const CallOptions& call);

  [[nodiscard]] Result<Decision> decide(protocol::Request& request, const Limit& limit,
                                        const CallOptions& call);
  [[nodiscard]] Result<LayersDecision> take_all(std::span<const Layer> layers,
                                                const CallOptions& call);
  // What names a grant.
  [[nodiscard]] Result<Decision> with_grant(protocol::Op op, const Limit& policy,
                                            std::string_view key, std::uint64_t grant,
                                            std::uint32_t cost, const CallOptions& call);
  // A request that is complete. Where it brings a grant, that is counted from before it was sent.
  [[nodiscard]] Result<Decision> exchange(const protocol::Request& request, const Limit& limit,
                                          const CallOptions& call);

  // The decision of the server, or what the failure policy makes of its absence. `asks`: what a
  // local bucket would be asked; nothing where there is none for it.
  [[nodiscard]] Result<Decision> or_fallback(Result<Decision> decision, Asks asks,
                                             const CallOptions& call);

  [[nodiscard]] ClientCounters read_counters() const noexcept;

  const std::string address;
  const ClientOptions options;
  const std::unique_ptr<internal::Supervisor> supervisor;

 private:
  [[nodiscard]] Result<LayersDecision> layers_fallback(Error why, std::span<const Layer> layers,
                                                       CallOptions call);
  void count_decision() noexcept { server_decisions_.fetch_add(1, std::memory_order_relaxed); }

  using Count = std::atomic<std::uint64_t>;  // relaxed: statistics

  [[nodiscard]] Result<Answer> ask_within(const protocol::Request& request, internal::Time start,
                                          internal::Time deadline);
  [[nodiscard]] Decision let_through(Asks asks, ErrorCode why);
  [[nodiscard]] Decision refuse(ErrorCode why);
  [[nodiscard]] Decision decide_locally(Asks asks, bool partial, ErrorCode why);

  internal::LocalBuckets buckets_;
  Count server_decisions_{0};
  Count fallback_open_{0};
  Count fallback_closed_{0};
  Count local_admitted_{0};
  Count local_refused_{0};
  Count timeouts_{0};

 public:
  LeaseKeeper leases;  // last: its thread asks through all of the above, until it goes
};

}  // namespace pail
