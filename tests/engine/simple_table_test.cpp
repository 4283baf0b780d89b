// The table's bound under a race. Method: threads that start together insert different keys with
// one home into tables that hold only a few; more keys than room must never get in, and every
// search must end.
#include "server/engine/simple_table.hpp"

#include <doctest/doctest.h>

#include <barrier>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace pail::engine {
namespace {

using SmallTable = SimpleTable;

Outcome insert(SmallTable& table, std::uint64_t key) {
  SmallTable::Participant participant;
  return table.update(participant, KeyHash{0, key}, Access::insert, 1,
                      [](std::uint64_t word, std::uint64_t) { return std::optional(word + 2); });
}

TEST_CASE("racing new keys never take more room than there is") {
  constexpr std::size_t kThreads = 4;
  constexpr int kRounds = 2000;
  for (std::size_t room = 1; room < kThreads; ++room) {
    std::unique_ptr<SmallTable> table;
    std::vector<Outcome> outcomes(kThreads);
    std::size_t most = 0;
    std::barrier turn(kThreads + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int round = 0; round < kRounds; ++round) {
          turn.arrive_and_wait();
          outcomes[i] = insert(*table, i + 1);
          turn.arrive_and_wait();
        }
      });
    }
    for (int round = 0; round < kRounds; ++round) {
      table = std::make_unique<SmallTable>(room);
      turn.arrive_and_wait();
      turn.arrive_and_wait();
      std::size_t written = 0;
      for (const Outcome outcome : outcomes) written += outcome == Outcome::written ? 1 : 0;
      most = written > most ? written : most;
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(most <= room);
    CHECK(most > 0);
  }
}

TEST_CASE("a full table refuses new keys and serves those it has") {
  SmallTable table(2);
  CHECK(insert(table, 1) == Outcome::written);
  CHECK(insert(table, 2) == Outcome::written);
  CHECK(insert(table, 3) == Outcome::full);
  CHECK(insert(table, 1) == Outcome::written);
  CHECK(insert(table, 3) == Outcome::full);
}

}  // namespace
}  // namespace pail::engine
