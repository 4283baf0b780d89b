// The map of free runs in a chunk. Method: random takes and gives beside a plain array of flags, in
// which the lowest free run is looked for by counting.
#include "server/engine/run_map.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/random.hpp"

using pail::engine::RunMap;
using pail::test::Random;

namespace {

class NaiveMap {
 public:
  explicit NaiveMap(std::uint32_t reserved) : taken_(RunMap::kGranules) { mark(0, reserved, true); }

  // The lowest free run of a length, or kGranules.
  [[nodiscard]] std::uint32_t find(std::uint32_t length) const {
    std::uint32_t run = 0;
    for (std::uint32_t i = 0; i < RunMap::kGranules; ++i) {
      run = taken_[i] ? 0 : run + 1;
      if (run == length) return i + 1 - length;
    }
    return RunMap::kGranules;
  }
  [[nodiscard]] std::uint32_t longest() const {
    std::uint32_t run = 0, most = 0;
    for (const bool taken : taken_) most = std::max(most, run = taken ? 0 : run + 1);
    return most;
  }
  void mark(std::uint32_t first, std::uint32_t length, bool taken) {
    for (std::uint32_t i = first; i < first + length; ++i) taken_[i] = taken;
  }

 private:
  std::vector<bool> taken_;
};

}  // namespace

TEST_CASE("a fresh map has one run, behind what is reserved") {
  for (const std::uint32_t reserved : {1U, 63U, 64U, 65U, 160U, 16384U}) {
    const auto map = std::make_unique<RunMap>(reserved);
    CHECK(map->longest_free() == RunMap::kGranules - reserved);
    CHECK(map->taken() == reserved);
    CHECK(map->check_invariants());
    CHECK(map->take(RunMap::kGranules - reserved) == reserved);
    CHECK(map->longest_free() == 0);
    map->give(reserved, RunMap::kGranules - reserved);
    CHECK(map->take(1) == reserved);
  }
}

TEST_CASE("random runs are taken at the lowest address that has room") {
  Random random(31);
  for (const std::uint32_t largest : {3U, 40U, 900U, 20000U}) {
    const auto map = std::make_unique<RunMap>(160);
    NaiveMap naive(160);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
    for (int step = 0; step < 400; ++step) {
      const auto length = static_cast<std::uint32_t>(random.between(1, largest));
      if (map->longest_free() >= length && !random.one_in(3)) {
        const std::uint32_t expected = naive.find(length);
        const std::uint32_t first = map->take(length);
        REQUIRE(first == expected);
        naive.mark(first, length, true);
        runs.emplace_back(first, length);
      } else if (!runs.empty()) {
        std::swap(runs[random.below(runs.size())], runs.back());
        map->give(runs.back().first, runs.back().second);
        naive.mark(runs.back().first, runs.back().second, false);
        runs.pop_back();
      }
      REQUIRE(map->longest_free() == naive.longest());
    }
    CHECK(map->check_invariants());
    for (const auto& [first, length] : runs) map->give(first, length);
    CHECK(map->taken() == 160);
    CHECK(map->longest_free() == RunMap::kGranules - 160);
  }
}
