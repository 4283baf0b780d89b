// A limit of any kind, in the form that decisions use, and the receipt of what one of them charged.
#pragma once

#include "server/engine/calendar.hpp"
#include "server/engine/counted_word.hpp"
#include "server/engine/keyed_hash.hpp"
#include "server/engine/leaky_bucket.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

// How a policy is leased: see Worker::lease().
struct LeaseTerms {
  std::uint64_t ttl_ns = 0;          // how long a lease may be spent; 0: the policy is not leased
  std::uint32_t share_percent = 10;  // a lease is at most this part of what is left; 1 to 100
  std::uint32_t least = 8;           // tokens: smaller leases are not given; at least 1
  friend bool operator==(const LeaseTerms&, const LeaseTerms&) = default;
};
inline constexpr std::uint64_t kMinLeaseNs = 10'000'000;
inline constexpr std::uint64_t kMaxLeaseNs = 60'000'000'000;

// Made by make_limit(), which checks it.
struct Limit {
  Algorithm algorithm = Algorithm::token_bucket;
  LeakyBucket queue;           // token_bucket and leaky_bucket; the former never waits
  CountedLimit counted;        // the other three
  WindowRule rule;             // likewise; of concurrency: rounds of one ttl
  std::uint32_t max_debt = 0;  // tokens that a settlement may overdraw by
  LeaseTerms lease;
  friend bool operator==(const Limit&, const Limit&) = default;

  [[nodiscard]] constexpr bool is_bucket() const noexcept {
    return algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket;
  }
  // What answers call the limit: the burst, or the most in a window or at once.
  [[nodiscard]] constexpr std::uint32_t most() const noexcept {
    return is_bucket() ? queue.bucket.burst : counted.most;
  }
};

// The same limit for a settlement upwards: a partial take under it is what may be charged.
[[nodiscard]] Limit overdrawable(const Limit& limit) noexcept;

// What was charged, where and when: enough to give it back, once. Whoever keeps one sees to that.
struct Receipt {
  KeyHash entry;
  Ticks at = 0;
  std::uint32_t tokens = 0;
  Mark mark = 0;  // of a window
  // What the fence had counted before the charge: after a RESET of the key nothing is given back.
  std::uint32_t resets = 0;
  std::uint32_t policy = 0;
  std::uint16_t policy_version = 0;
  KeyHash key = {};  // of which the entry is one, or half
};

}  // namespace pail::engine
