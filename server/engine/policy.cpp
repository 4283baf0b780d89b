#include "server/engine/policy.hpp"

#include <fmt/format.h>

#include <bit>
#include <unordered_map>

namespace pail::engine {

std::string check_policies(std::span<const PolicySpec> specs) {
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
  return {};
}

tl::expected<PolicySet, PolicyError> PolicySet::make(std::span<const PolicySpec> specs,
                                                     std::uint16_t version,
                                                     const KeyHasher& hasher) {
  if (std::string fault = check_policies(specs); !fault.empty()) {
    return tl::unexpected(PolicyError{std::move(fault)});
  }
  PolicySet set;
  set.version_ = version;
  set.policies_.reserve(specs.size());
  set.places_.resize(std::bit_ceil(2 * specs.size() + 1));
  set.mask_ = set.places_.size() - 1;
  for (const PolicySpec& spec : specs) {
    const Limit limit = make_limit(spec);
    const Identity identity{.kind = Identity::Kind::by_policy,
                            .algorithm = spec.algorithm,
                            .policy = spec.identity != 0 ? spec.identity : spec.id,
                            .window = limit.is_bucket() ? 0 : limit.rule.identity()};
    std::size_t at = spec.id & set.mask_;
    while (set.places_[at].id != 0) at = (at + 1) & set.mask_;
    set.places_[at] = {spec.id, static_cast<std::uint32_t>(set.policies_.size())};
    set.policies_.push_back({spec.id, hasher.prefix(identity), limit});
  }
  return set;
}

}  // namespace pail::engine
