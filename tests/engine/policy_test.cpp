// The set of named limits: every id is found, no other is.
#include "server/engine/policy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/random.hpp"

using namespace pail::engine;

namespace {

const KeyHasher kHasher{HashSecret{}};

}  // namespace

TEST_CASE("an empty set finds nothing") {
  const PolicySet set = PolicySet::make({}, 1, kHasher).value();
  CHECK(set.find(0) == nullptr);
  CHECK(set.find(1) == nullptr);
  CHECK(set.find(~std::uint32_t{0}) == nullptr);
}

TEST_CASE("every id of a large set is found, clustered ones too, and no other") {
  pail::test::Random random(4);
  std::vector<NamedRate> rates;
  for (std::uint32_t i = 1; i <= 500; ++i) {
    // Half of them share all low bits, so they crowd one place.
    const std::uint32_t id = i % 2 == 0 ? i << 16 : i;
    rates.push_back({"p" + std::to_string(i), id, {1'000'000'000, i, i}});
  }
  const PolicySet set = PolicySet::make(rates, 7, kHasher).value();
  CHECK(set.version() == 7);
  CHECK(set.size() == rates.size());
  for (const NamedRate& named : rates) {
    const Policy* policy = set.find(named.id);
    REQUIRE(policy != nullptr);
    CHECK(policy->id == named.id);
    CHECK(policy->limit.most() == named.rate.burst);
  }
  for (std::uint32_t i = 1; i <= 500; ++i) CHECK(set.find(i << 16 | 1U << 31 | 1) == nullptr);
  CHECK(set.find(0) == nullptr);
}

TEST_CASE("a bad list makes no set") {
  const std::vector<NamedRate> rates{{"api", 3, {0, 1, 1}}};
  const auto set = PolicySet::make(rates, 1, kHasher);
  REQUIRE_FALSE(set);
  CHECK(set.error().text == check_policies(rates));
}
