// A named limit as people write it: what a line of configuration says, before it is checked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "server/engine/calendar.hpp"
#include "server/engine/keyed_hash.hpp"
#include "server/engine/limit.hpp"
#include "server/engine/request.hpp"

namespace pail::engine {

// How a policy is applied.
enum class Enforcement : std::uint8_t {
  enforce,
  shadow,  // everybody is admitted; what would have been refused is said, and counted
  off,     // everybody is admitted, and nothing is counted against anybody
};

struct PolicySpec {
  std::string name = {};
  // protocol::policy_id(name), computed by the caller: the engine knows no protocol.
  std::uint32_t id = 0;
  Rate rate = {};  // token_bucket, leaky_bucket
  Algorithm algorithm = Algorithm::token_bucket;
  // Of fixed_window and sliding_window: the most in a window. Of concurrency: at once.
  std::uint32_t limit = 0;
  WindowRule window = {};  // of concurrency: every(ttl in seconds)
  // Tokens that each priority leaves for the higher ones; never more than the one below it.
  std::array<std::uint32_t, kPriorities> reserve = {};
  std::uint64_t max_wait_ns = 0;  // leaky_bucket: how long a request may be held
  std::uint32_t max_debt = 0;     // tokens that a settlement may overdraw by; not of concurrency
  // The policy whose keys these are, for a tier of it; 0: its own. What a key has used of either
  // counts for both, where they have the same algorithm and window.
  std::uint32_t identity = 0;
  LeaseTerms lease = {};  // token_bucket only
  Enforcement enforcement = Enforcement::enforce;
  // Of keys that it is enforced for, always the same ones while the server runs; for the others it
  // is a shadow.
  std::uint8_t percent = 100;
};
using NamedRate = PolicySpec;  // its name while it knew token buckets only

// A key that has numbers of its own under a policy.
struct OverrideSpec {
  std::uint32_t policy = 0;  // its id
  std::string key = {};
  PolicySpec limit = {};  // of the policy's algorithm and window
};

// What becomes of a request for a policy that there is not.
struct UnknownPolicy {
  enum class Rule : std::uint8_t {
    refuse,
    admit,       // without counting it against anybody
    by_default,  // as if it had named another one: keys of all unknown policies are that one's
  };
  Rule rule = Rule::refuse;
  std::uint32_t id = 0;  // of the other one
};

inline constexpr std::size_t kMaxPolicies = 65536;
inline constexpr std::size_t kMaxOverrides = 65536;

// Empty if the policy can be used; else what is wrong and what would be right.
[[nodiscard]] std::string check_policy(const PolicySpec& spec);

// Empty if an Engine can use the list; else what is wrong, with the policy's name.
[[nodiscard]] std::string check_policies(std::span<const PolicySpec> specs,
                                         std::span<const OverrideSpec> overrides = {},
                                         const UnknownPolicy& unknown = {});

// For a policy that passed.
[[nodiscard]] Limit make_limit(const PolicySpec& spec);

}  // namespace pail::engine
