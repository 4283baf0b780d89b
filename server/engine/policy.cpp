#include "server/engine/policy.hpp"

#include <fmt/format.h>

#include <bit>
#include <set>
#include <unordered_map>

#include "server/engine/rate.hpp"

namespace pail::engine {

namespace {

std::string fault_in_override(const OverrideSpec& override, const PolicySpec* policy) {
  if (policy == nullptr) return "an override is for a policy that there is not";
  const auto fault = [&](std::string_view what) {
    return fmt::format("an override of policy \"{}\": {}", policy->name, what);
  };
  if (override.key.size() < kMinKeyBytes || override.key.size() > kMaxKeyBytes) {
    return fault("a key has 1 to 1024 bytes");
  }
  if (override.limit.algorithm != policy->algorithm || !(override.limit.window == policy->window)) {
    return fault("it has the algorithm and the window of its policy");
  }
  const std::string own = check_policy(override.limit);
  return own.empty() ? "" : fault(own);
}

// How far ahead of the clock a word can be written.
Ticks longest_of(const Limit& limit) {
  if (!limit.is_bucket()) return 0;
  const Ticks debt = limit.max_debt * limit.queue.bucket.per_token;
  return limit.queue.bucket.tolerance + std::max(limit.queue.max_wait, debt);
}

// Off, so its numbers only show what they are not; permits of it are told to last a minute.
Policy admit_all(const KeyHasher& hasher) {
  constexpr std::uint32_t kMost = ~std::uint32_t{0};
  Limit limit;
  limit.queue.bucket = make_token_bucket({1'000'000'000, kMost, kMost}).value();
  limit.rule = WindowRule::every(60);
  return {.version = 1,
          .is_plain = false,
          .enforcement = Enforcement::off,
          .prefix = hasher.prefix({.kind = Identity::Kind::by_policy}),
          .limit = limit};
}

// On the wire a version has 16 bits, and 0 is that of an inline limit.
std::uint16_t wire_version(std::uint32_t version) {
  return static_cast<std::uint16_t>((version - 1) % 0xFFFF + 1);
}

}  // namespace

std::string check_policies(std::span<const PolicySpec> specs,
                           std::span<const OverrideSpec> overrides, const UnknownPolicy& unknown) {
  if (specs.size() > kMaxPolicies) {
    return fmt::format("{} policies: {} are the most", specs.size(), kMaxPolicies);
  }
  std::unordered_map<std::uint32_t, const PolicySpec*> by_id;
  for (const PolicySpec& spec : specs) {
    if (spec.name.empty()) return "a policy has no name";
    if (spec.id == 0) return fmt::format("policy \"{}\" has the id 0, which means none", spec.name);
    if (const std::string fault = check_policy(spec); !fault.empty()) {
      return fmt::format("policy \"{}\": {}", spec.name, fault);
    }
    const auto [other, is_new] = by_id.emplace(spec.id, &spec);
    if (is_new) continue;
    if (other->second->name == spec.name) {
      return fmt::format("policy \"{}\" is given twice", spec.name);
    }
    return fmt::format("policies \"{}\" and \"{}\" have the same id {:#010x}: rename one",
                       other->second->name, spec.name, spec.id);
  }
  if (unknown.rule == UnknownPolicy::Rule::by_default && !by_id.contains(unknown.id)) {
    return "unknown_policy = \"default:NAME\" names a policy that there is not";
  }
  if (overrides.size() > kMaxOverrides) {
    return fmt::format("{} overrides: {} are the most", overrides.size(), kMaxOverrides);
  }
  std::set<std::pair<std::uint32_t, std::string_view>> keys;
  for (const OverrideSpec& override : overrides) {
    const auto policy = by_id.find(override.policy);
    const PolicySpec* const of = policy == by_id.end() ? nullptr : policy->second;
    if (std::string fault = fault_in_override(override, of); !fault.empty()) return fault;
    if (!keys.emplace(override.policy, override.key).second) {
      return fmt::format("two overrides of policy \"{}\" are for one key", of->name);
    }
  }
  return {};
}

tl::expected<PolicySet, PolicyError> PolicySet::make(std::span<const PolicySpec> specs,
                                                     std::uint32_t version, const KeyHasher& hasher,
                                                     std::span<const OverrideSpec> overrides,
                                                     const PolicySet* previous,
                                                     const UnknownPolicy& unknown) {
  if (std::string fault = check_policies(specs, overrides, unknown); !fault.empty()) {
    return tl::unexpected(PolicyError{std::move(fault)});
  }
  PolicySet set;
  set.version_ = version;
  set.policies_.reserve(specs.size());
  set.places_.resize(std::bit_ceil(2 * specs.size() + 1));
  set.mask_ = set.places_.size() - 1;
  std::unordered_map<std::uint32_t, std::size_t> index_of;
  for (const PolicySpec& spec : specs) {
    const Limit limit = make_limit(spec);
    const Identity identity{.kind = Identity::Kind::by_policy,
                            .algorithm = spec.algorithm,
                            .policy = spec.identity != 0 ? spec.identity : spec.id,
                            .window = limit.is_bucket() ? 0 : limit.rule.identity()};
    std::size_t at = spec.id & set.mask_;
    while (set.places_[at].id != 0) at = (at + 1) & set.mask_;
    set.places_[at] = {spec.id, static_cast<std::uint32_t>(set.policies_.size())};
    index_of.emplace(spec.id, set.policies_.size());
    set.policies_.push_back({.id = spec.id,
                             .enforcement = spec.enforcement,
                             .percent = spec.percent,
                             .prefix = hasher.prefix(identity),
                             .limit = limit});
  }
  for (const OverrideSpec& override : overrides) {
    Policy& policy = set.policies_[index_of.at(override.policy)];
    const KeyHash key = KeyHasher::hash(policy.prefix, std::as_bytes(std::span(override.key)));
    policy.overrides.push_back({key, make_limit(override.limit)});
  }
  for (Policy& policy : set.policies_) {
    std::sort(
        policy.overrides.begin(), policy.overrides.end(),
        [](const KeyOverride& a, const KeyOverride& b) { return Policy::is_before(a.key, b.key); });
    policy.is_plain = policy.limit.algorithm == Algorithm::token_bucket &&
                      policy.enforcement == Enforcement::enforce && policy.percent >= 100 &&
                      policy.overrides.empty();
  }
  set.add_families(specs, previous);
  if (unknown.rule == UnknownPolicy::Rule::admit) {
    set.admit_all_ = std::make_unique<const Policy>(admit_all(hasher));
    set.fallback_ = set.admit_all_.get();
  } else if (unknown.rule == UnknownPolicy::Rule::by_default) {
    set.fallback_ = set.find(unknown.id);
  }
  return set;
}

// Tiers, and keys with overrides, share words: what changes for one changes for all.
void PolicySet::add_families(std::span<const PolicySpec> specs, const PolicySet* previous) {
  const auto family_of = [](const PolicySpec& spec) {
    return spec.identity != 0 ? spec.identity : spec.id;
  };
  std::map<std::uint32_t, Ticks> longest;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Policy& policy = policies_[i];
    Family& family = families_[family_of(specs[i])];
    family.limits.push_back({policy.id, 0, policy.limit});
    Ticks& most = longest[family_of(specs[i])];
    most = std::max(most, longest_of(policy.limit));
    for (const KeyOverride& override : policy.overrides) {
      family.limits.push_back({policy.id, override.key.low, override.limit});
      most = std::max(most, longest_of(override.limit));
    }
  }
  for (auto& [identity, family] : families_) {
    family.version = wire_version(version_);
    if (previous == nullptr) continue;
    const auto before = previous->families_.find(identity);
    if (before != previous->families_.end() && before->second.limits == family.limits) {
      family.version = before->second.version;
    }
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    policies_[i].version = families_.at(family_of(specs[i])).version;
    policies_[i].longest = longest.at(family_of(specs[i]));
  }
}

}  // namespace pail::engine
