// The limiter in this process: the same decisions as a server's, and none of its sockets. For one
// instance that shares its limits with nobody, and for tests of programs that use pail::Client.
//
//   auto limiter = pail::Limiter::make({.policies = {"api=100/s,200"}});
//   const auto decision = limiter->take(pail::Limit::policy("api"), "partner-a");
//
// Threads: every function may be called from any number of threads at once, but moving and
// destroying a Limiter excludes all other use of it. Keys are decided without a lock; each call
// borrows one of a few workers, and waits for one only where more threads call at once than there
// are.
//
// Memory: LimiterOptions::memory_limit_bytes, and a few hundred KiB. Keys that are full again are
// forgotten; live ones never are.
//
// State ends with the Limiter. Every Decision has the source Decision::Source::limiter. There are
// no deadlines and no failures, so of CallOptions `deadline` and `on_failure` do not count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pail/client.hpp>

namespace pail {

struct LimiterOptions {
  // Named limits, each a line as `paild --policy` takes it.
  std::vector<std::string> policies = {};
  // Of the table, in resident bytes: a million live keys need 30 MB. At least 1 MiB is sensible.
  std::size_t memory_limit_bytes = std::size_t{256} << 20;
  // What becomes of a take of a new key that finds no memory: let through uncounted, or
  // ErrorCode::table_full.
  bool admit_when_full = false;
};

class Limiter {
 public:
  // Errors: bad_argument (a policy that cannot be used), system.
  [[nodiscard]] static Result<Limiter> make(const LimiterOptions& options = {});

  Limiter(Limiter&&) noexcept;
  Limiter& operator=(Limiter&&) noexcept;
  ~Limiter();

  // As those of pail::Client, with the same errors: bad_argument, unknown_policy, table_full.
  // settle_later is a bad_argument here.
  [[nodiscard]] Result<Decision> take(const Limit& limit, std::string_view key,
                                      const CallOptions& options = {});
  [[nodiscard]] Result<Decision> peek(const Limit& limit, std::string_view key,
                                      const CallOptions& options = {});
  [[nodiscard]] Result<LayersDecision> take_all(std::span<const Layer> layers,
                                                const CallOptions& options = {});
  [[nodiscard]] Result<Decision> acquire(const Limit& policy, std::string_view key,
                                         const CallOptions& options = {});
  [[nodiscard]] Result<Decision> renew(const Limit& policy, std::string_view key,
                                       std::uint64_t grant, const CallOptions& options = {});
  [[nodiscard]] Result<Decision> release(const Limit& policy, std::string_view key,
                                         std::uint64_t grant, const CallOptions& options = {});
  [[nodiscard]] Result<void> reset(const Limit& limit, std::string_view key,
                                   const CallOptions& options = {});

 private:
  struct Parts;
  explicit Limiter(std::unique_ptr<Parts> parts) noexcept;
  std::unique_ptr<Parts> parts_;
};

}  // namespace pail
