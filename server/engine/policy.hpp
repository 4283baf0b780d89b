// The named limits of a server: an immutable set, looked up by id for every request.
//
// A set never changes once made, so any number of threads read it without care; a change of
// configuration is a new set with a new version.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "server/engine/keyed_hash.hpp"
#include "server/engine/limit.hpp"
#include "server/engine/policy_spec.hpp"

namespace pail::engine {

// Keys with numbers of their own, in the order of their hashes.
struct KeyOverride {
  KeyHash key;
  Limit limit;
};

struct Policy {
  std::uint32_t id = 0;       // 0: not of the list, but what unknown policies are admitted by
  std::uint16_t version = 0;  // of the set in which the numbers of its keys last changed; never 0
  // A token bucket, enforced, the same for all keys: decided the short way.
  bool is_plain = true;
  Enforcement enforcement = Enforcement::enforce;
  std::uint8_t percent = 100;
  KeyHasher::Prefix prefix;  // of the identity of every key under this policy
  Limit limit = {};
  // Of buckets: how far ahead a word of these keys can be, by any tier and override.
  Ticks longest = 0;
  std::vector<KeyOverride> overrides = {};
  std::uint32_t slot = 0;  // where it is counted: policy_counters.hpp

  // The limit of one key. Null: the policy's.
  [[nodiscard]] const Limit* find_override(KeyHash key) const noexcept {
    const auto found = std::lower_bound(
        overrides.begin(), overrides.end(), key,
        [](const KeyOverride& one, KeyHash wanted) { return is_before(one.key, wanted); });
    if (found == overrides.end() || is_before(key, found->key)) return nullptr;
    return &found->limit;
  }
  [[nodiscard]] const Limit& limit_of(KeyHash key) const noexcept {
    const Limit* const own = overrides.empty() ? nullptr : find_override(key);
    return own != nullptr ? *own : limit;
  }
  // Whether what this policy refuses the key is refused.
  [[nodiscard]] bool is_enforced_for(KeyHash key) const noexcept {
    if (enforcement != Enforcement::enforce) return false;
    return percent >= 100 || ((key.low >> 32) * 100) >> 32 < percent;
  }

  [[nodiscard]] static bool is_before(KeyHash a, KeyHash b) noexcept {
    return a.low != b.low ? a.low < b.low : a.high < b.high;
  }
};

// What is wrong with a list of policies, for the operator.
struct PolicyError {
  std::string text;
};

class PolicySet {
 public:
  // `previous`: the set that this one is to follow, which tells what has changed.
  [[nodiscard]] static tl::expected<PolicySet, PolicyError> make(
      std::span<const PolicySpec> specs, std::uint32_t version, const KeyHasher& hasher,
      std::span<const OverrideSpec> overrides = {}, const PolicySet* previous = nullptr,
      const UnknownPolicy& unknown = {});

  // Nothing where there is no such policy. A probe of a table that is at most half full.
  [[nodiscard]] const Policy* find(std::uint32_t id) const noexcept {
    for (std::size_t at = id & mask_;; at = (at + 1) & mask_) {
      const Place place = places_[at];
      if (place.id == 0) return nullptr;
      if (place.id == id) return &policies_[place.index];
    }
  }

  // What decides where there is no such policy. Null: it is refused.
  [[nodiscard]] const Policy* fallback() const noexcept { return fallback_; }

  // 1 for the first, and 1 more for each that follows.
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] std::span<const Policy> policies() const noexcept { return policies_; }
  [[nodiscard]] std::size_t size() const noexcept { return policies_.size(); }

 private:
  friend class PolicyCounters;  // gives policies their slots

  struct Place {
    std::uint32_t id = 0;  // 0: empty, so that looking for 0 finds nothing
    std::uint32_t index = 0;
  };

  // All limits that the keys of one identity may have, and since when.
  struct FamilyLimit {
    std::uint32_t policy = 0;
    std::uint64_t key = 0;  // of an override, else 0
    Limit limit;
    friend bool operator==(const FamilyLimit&, const FamilyLimit&) = default;
  };
  struct Family {
    std::vector<FamilyLimit> limits;
    std::uint16_t version = 0;
  };

  PolicySet() = default;
  void add_families(std::span<const PolicySpec> specs, const PolicySet* previous);

  std::vector<Policy> policies_;
  std::vector<Place> places_;  // a power of two, by id: ids are hashes of names already
  std::size_t mask_ = 0;
  std::uint32_t version_ = 0;
  std::unique_ptr<const Policy> admit_all_;
  const Policy* fallback_ = nullptr;  // that, or one of policies_, which move as a whole
  std::map<std::uint32_t, Family> families_;
};

}  // namespace pail::engine
