// Concern: what counts as lagging behind, and what as a wait or a single long turn; how long a turn
// is expected to take; how much is shed. Method: turns at invented times.
#include "server/backlog.hpp"

#include <doctest/doctest.h>

namespace pail::server {
namespace {

constexpr std::uint32_t kLongUs = 5'000;
constexpr std::uint32_t kIntervalUs = 100'000;
constexpr std::size_t kMuch = 1024 * 1024;
constexpr std::size_t kLittle = 100;

class Turns {
 public:
  // One turn that begins `us` after the one before and has so much to do.
  void pass(std::uint32_t us, std::size_t bytes = kMuch, std::uint32_t turns = 1) {
    now_us_ += us;
    backlog.begin_turn(now_us_, bytes, turns);
  }
  // Of so many chunks, those that would be decided.
  [[nodiscard]] int served_of(int chunks) {
    int served = 0;
    for (int i = 0; i < chunks; ++i) served += backlog.serves_next() ? 1 : 0;
    return served;
  }
  Backlog backlog{kLongUs, kIntervalUs};

 private:
  std::uint64_t now_us_ = 1'000'000'000;
};

TEST_CASE("long turns for a whole interval shed more and more, short ones less and less") {
  Turns turns;
  turns.pass(0);
  for (int i = 0; i < 16; ++i) {
    turns.pass(6'000);
    CHECK_FALSE(turns.backlog.is_shedding());
  }
  turns.pass(6'000);
  CHECK(turns.backlog.is_shedding());
  const int first = turns.served_of(256);
  CHECK(first < 256);
  CHECK(first > 128);
  for (int i = 0; i < 100; ++i) turns.pass(6'000);
  CHECK(turns.served_of(256) == 16);  // never nothing
  int before = 16;
  int rounds = 0;
  for (; turns.backlog.is_shedding(); ++rounds) {
    turns.pass(kLongUs);
    const int served = turns.served_of(256);
    CHECK(served > before);
    before = served;
  }
  CHECK(rounds > 10);
  CHECK(rounds < 100);
}

TEST_CASE("what is shed is spread evenly") {
  Turns turns;
  turns.pass(0);
  for (int i = 0; i < 23; ++i) turns.pass(6'000);
  REQUIRE(turns.backlog.is_shedding());
  const int served = turns.served_of(1024);
  for (int i = 0; i < 16; ++i) {
    const int part = turns.served_of(64);
    CHECK(part >= served / 16 - 1);
    CHECK(part <= served / 16 + 1);
  }
}

TEST_CASE("who is received from in every fourth turn waits for four") {
  Turns turns;
  for (int i = 0; i < 100; ++i) turns.pass(1'500, kMuch, 3);
  CHECK_FALSE(turns.backlog.is_shedding());
  for (int i = 0; i < 100; ++i) turns.pass(1'500, kMuch, 4);
  CHECK(turns.backlog.is_shedding());
}

TEST_CASE("time that may have been waited away is no work") {
  Turns turns;
  for (int i = 0; i < 100; ++i) {
    turns.pass(250'000, kLittle);
    CHECK_FALSE(turns.backlog.is_busy());
    CHECK_FALSE(turns.backlog.is_shedding());
  }
  CHECK(turns.backlog.expected_us() == 0);
}

TEST_CASE("one very long turn is a hiccup, not a backlog") {
  Turns turns;
  turns.pass(0);
  turns.pass(90'000);
  turns.pass(1'000);
  turns.pass(90'000);
  CHECK_FALSE(turns.backlog.is_shedding());
}

TEST_CASE("a turn is expected to take what others took for as many bytes") {
  Turns turns;
  CHECK(turns.backlog.expected_us() == 0);
  turns.pass(0);
  turns.pass(2'048);
  CHECK(turns.backlog.expected_us() == 2'048);
  turns.pass(2'048, kMuch / 4);
  CHECK(turns.backlog.expected_us() == 512);
  // An interruption is not taken for the cost of the work.
  turns.pass(80'000);
  CHECK(turns.backlog.expected_us() <= 2'304);
  for (int i = 0; i < 100; ++i) turns.pass(4'000);
  CHECK(turns.backlog.expected_us() > 3'900);
}

TEST_CASE("a connection with more waiting makes the next reap not wait") {
  Turns turns;
  turns.pass(0, kLittle);
  CHECK_FALSE(turns.backlog.is_busy());
  turns.backlog.note_more_waiting();
  CHECK(turns.backlog.is_busy());
  turns.pass(0, kLittle);
  CHECK_FALSE(turns.backlog.is_busy());
}

TEST_CASE("nothing is shed where no turn counts as long") {
  Backlog never(0, kIntervalUs);
  for (std::uint64_t now_us = 1; now_us < 10'000'000; now_us += 50'000) {
    never.begin_turn(now_us, kMuch);
    CHECK_FALSE(never.is_shedding());
  }
}

}  // namespace
}  // namespace pail::server
