// Sees to the leases of a client: asks for those that have become due, so that callers need not
// wait for them, and returns what is left at the end. One thread a client, started with the first
// lease that is due.
//
// Thread safety: take() and learn() from any thread; finish() from any, once it counts.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include <pail/client.hpp>
#include "client/src/lease_cache.hpp"
#include "client/src/socket.hpp"

namespace pail {

class LeaseKeeper {
 public:
  // `parts` is what it asks through, and outlives it. `keys` 0: nothing is leased.
  LeaseKeeper(Client::Parts& parts, std::size_t keys, std::uint64_t seed, internal::Bell bell);
  ~LeaseKeeper();  // finish()
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // A decision of this process; nothing: the server is to be asked.
  [[nodiscard]] std::optional<Decision> take(const Limit& limit, std::string_view key,
                                             const CallOptions& call) noexcept;
  // What the server decided then.
  void learn(const Limit& limit, std::string_view key, const CallOptions& call,
             const Decision& decision, internal::Time sent_at);

  // Returns what is held, as far as that goes within four deadlines, and leases nothing any more.
  void finish() noexcept;

  [[nodiscard]] internal::LeaseCounters read() const;

 private:
  [[nodiscard]] static bool may_be_leased(const Limit& limit, const CallOptions& call) noexcept {
    return limit.is_policy() && !call.settle_later && !call.partial;
  }
  void start();
  void run();
  void fetch(const internal::LeaseCache::Errand& errand);
  void give_back();
  void wait_for_bell(std::chrono::nanoseconds at_most) noexcept;

  Client::Parts& parts_;
  const std::unique_ptr<internal::LeaseCache> cache_;  // null: nothing is leased
  internal::Bell bell_;
  std::atomic<bool> is_over_{false};  // relaxed: the bell wakes whoever has to see it
  std::mutex mutex_;
  std::thread thread_;  // guarded by the mutex
};

}  // namespace pail
