// The ledger against a map: random gifts, uses, expiries and ends of connections.
#include "server/frontend/grant_ledger.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "tests/support/random.hpp"

namespace pail::frontend {
namespace {

constexpr std::uint64_t kSecondUs = 1'000'000;

engine::Receipt receipt_of(std::uint32_t tokens) {
  engine::Receipt receipt;
  receipt.tokens = tokens;
  return receipt;
}

std::optional<engine::Receipt> take(GrantLedger& ledger, GrantOwner& owner, std::uint64_t id,
                                    std::uint64_t now_us) {
  const engine::Receipt* const found = ledger.find(owner, id, now_us);
  if (found == nullptr) return std::nullopt;
  const engine::Receipt receipt = *found;
  ledger.use_up(id);
  return receipt;
}

TEST_CASE("a grant is used once, by its own connection, before it expires") {
  GrantLedger ledger;
  GrantOwner mine;
  GrantOwner other;
  const std::uint64_t id = ledger.add(mine, receipt_of(7), 0);
  CHECK(id != 0);
  CHECK_FALSE(take(ledger, other, id, 0));
  CHECK_FALSE(take(ledger, mine, id + 1, 0));
  CHECK_FALSE(take(ledger, mine, 0, 0));
  CHECK(ledger.find(mine, id, 0) != nullptr);  // finding is not using
  const auto receipt = take(ledger, mine, id, GrantLedger::kTtlUs - 1);
  REQUIRE(receipt);
  CHECK(receipt->tokens == 7);
  CHECK_FALSE(take(ledger, mine, id, 0));
  const std::uint64_t again = ledger.add(mine, receipt_of(8), 0);
  CHECK(again != id);
  CHECK_FALSE(take(ledger, mine, again, GrantLedger::kTtlUs));
  CHECK(ledger.size() == 0);
  CHECK(mine.count == 0);
}

TEST_CASE("a connection has its limit, the ledger has its own, and what expires makes room") {
  GrantLedger ledger(GrantLedger::kMaxGrants + 10);
  GrantOwner greedy;
  while (ledger.has_room(greedy, 0)) ledger.add(greedy, receipt_of(1), 0);
  CHECK(greedy.count == GrantLedger::kMaxGrants);
  GrantOwner modest;
  while (ledger.has_room(modest, kSecondUs)) ledger.add(modest, receipt_of(1), kSecondUs);
  CHECK(modest.count == 10);
  CHECK(ledger.has_room(modest, GrantLedger::kTtlUs));
  CHECK(greedy.count == 0);
  CHECK(modest.count == 10);
  ledger.drop(modest);
  CHECK(ledger.size() == 0);
}

TEST_CASE("random use agrees with a map") {
  struct Known {
    std::size_t owner = 0;
    std::uint32_t tokens = 0;
    std::uint64_t expires_us = 0;
  };
  test::Random random;
  GrantLedger ledger(50);
  std::array<GrantOwner, 4> owners;
  std::map<std::uint64_t, Known> known;
  std::vector<std::uint64_t> ids{1};
  std::uint64_t now_us = 0;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const std::size_t owner = random.below(owners.size());
    const auto forget = [&](auto which) { std::erase_if(known, which); };
    if (random.one_in(2)) {
      if (!ledger.has_room(owners[owner], now_us)) continue;
      const std::uint64_t id = ledger.add(owners[owner], receipt_of(i), now_us);
      REQUIRE(known.emplace(id, Known{owner, i, now_us + GrantLedger::kTtlUs}).second);
      ids.push_back(id);
    } else if (random.one_in(100)) {
      ledger.drop(owners[owner]);
      forget([&](const auto& entry) { return entry.second.owner == owner; });
    } else {
      const std::uint64_t id = ids[random.below(ids.size())];
      const auto found = known.find(id);
      const bool is_due =
          found != known.end() && found->second.owner == owner && now_us < found->second.expires_us;
      const auto receipt = take(ledger, owners[owner], id, now_us);
      REQUIRE(receipt.has_value() == is_due);
      if (is_due) REQUIRE(receipt->tokens == found->second.tokens);
      if (found != known.end() && found->second.owner == owner) known.erase(found);
    }
    if (random.one_in(8)) now_us += random.below(GrantLedger::kTtlUs / 4);
    if (ids.size() > 200) ids.erase(ids.begin(), ids.begin() + 100);
  }
  for (GrantOwner& owner : owners) ledger.drop(owner);
  CHECK(ledger.size() == 0);
}

}  // namespace
}  // namespace pail::frontend
