#include "server/engine/policy.hpp"

#include <fmt/format.h>

#include <bit>
#include <unordered_map>

namespace pail::engine {

std::string check_policies(std::span<const NamedRate> rates) {
  if (rates.size() > kMaxPolicies) {
    return fmt::format("{} policies: {} are the most", rates.size(), kMaxPolicies);
  }
  std::unordered_map<std::uint32_t, const NamedRate*> by_id;
  for (const NamedRate& named : rates) {
    if (named.name.empty()) return "a policy has no name";
    if (named.id == 0)
      return fmt::format("policy \"{}\" has the id 0, which means none", named.name);
    if (const std::string fault = check_rate(named.rate); !fault.empty()) {
      return fmt::format("policy \"{}\": {}", named.name, fault);
    }
    const auto [other, is_new] = by_id.emplace(named.id, &named);
    if (is_new) continue;
    if (other->second->name == named.name) {
      return fmt::format("policy \"{}\" is given twice", named.name);
    }
    return fmt::format("policies \"{}\" and \"{}\" have the same id {:#010x}: rename one",
                       other->second->name, named.name, named.id);
  }
  return {};
}

tl::expected<PolicySet, PolicyError> PolicySet::make(std::span<const NamedRate> rates,
                                                     std::uint16_t version,
                                                     const KeyHasher& hasher) {
  if (std::string fault = check_policies(rates); !fault.empty()) {
    return tl::unexpected(PolicyError{std::move(fault)});
  }
  PolicySet set;
  set.version_ = version;
  set.policies_.reserve(rates.size());
  set.places_.resize(std::bit_ceil(2 * rates.size() + 1));
  set.mask_ = set.places_.size() - 1;
  for (const NamedRate& named : rates) {
    const Identity identity{.kind = Identity::Kind::by_policy,
                            .algorithm = Algorithm::token_bucket,
                            .policy = named.id};
    std::size_t at = named.id & set.mask_;
    while (set.places_[at].id != 0) at = (at + 1) & set.mask_;
    set.places_[at] = {named.id, static_cast<std::uint32_t>(set.policies_.size())};
    set.policies_.push_back(
        {named.id, make_token_bucket(named.rate).value(), hasher.prefix(identity)});
  }
  return set;
}

}  // namespace pail::engine
