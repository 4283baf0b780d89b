// The named limits of a server: an immutable set, looked up by id for every request.
//
// A set never changes once made, so any number of threads read it without care; a change of
// configuration is a new set with a new version.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "server/engine/keyed_hash.hpp"
#include "server/engine/limit.hpp"
#include "server/engine/policy_spec.hpp"

namespace pail::engine {

struct Policy {
  std::uint32_t id = 0;      // never 0
  KeyHasher::Prefix prefix;  // of the identity of every key under this policy
  Limit limit;
};

// What is wrong with a list of policies, for the operator.
struct PolicyError {
  std::string text;
};

class PolicySet {
 public:
  [[nodiscard]] static tl::expected<PolicySet, PolicyError> make(std::span<const PolicySpec> specs,
                                                                 std::uint16_t version,
                                                                 const KeyHasher& hasher);

  // Nothing where there is no such policy. A probe of a table that is at most half full.
  [[nodiscard]] const Policy* find(std::uint32_t id) const noexcept {
    for (std::size_t at = id & mask_;; at = (at + 1) & mask_) {
      const Place place = places_[at];
      if (place.id == 0) return nullptr;
      if (place.id == id) return &policies_[place.index];
    }
  }

  [[nodiscard]] std::uint16_t version() const noexcept { return version_; }
  [[nodiscard]] std::size_t size() const noexcept { return policies_.size(); }

 private:
  struct Place {
    std::uint32_t id = 0;  // 0: empty, so that looking for 0 finds nothing
    std::uint32_t index = 0;
  };

  PolicySet() = default;

  std::vector<Policy> policies_;
  std::vector<Place> places_;  // a power of two, by id: ids are hashes of names already
  std::size_t mask_ = 0;
  std::uint16_t version_ = 0;
};

}  // namespace pail::engine
