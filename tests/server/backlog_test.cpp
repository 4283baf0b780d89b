// Concern: what counts as a standing backlog, and what as a wait or a single long turn. Method:
// turns at invented times.
#include "server/backlog.hpp"

#include <doctest/doctest.h>

namespace pail::server {
namespace {

constexpr std::uint32_t kLongUs = 5'000;
constexpr std::uint32_t kIntervalUs = 100'000;

class Turns {
 public:
  // One turn that begins `us` after the one before; `more` waits after it.
  void pass(std::uint32_t us, bool more = true) {
    now_us_ += us;
    backlog.begin_turn(now_us_);
    if (more) backlog.note_more_waiting();
  }
  Backlog backlog{kLongUs, kIntervalUs};

 private:
  std::uint64_t now_us_ = 1'000'000'000;
};

TEST_CASE("long turns for a whole interval are a standing backlog, one short one ends it") {
  Turns turns;
  turns.pass(0);
  for (int i = 0; i < 16; ++i) {
    CHECK_FALSE(turns.backlog.is_standing());
    turns.pass(6'000);
    CHECK(turns.backlog.turn_us() == 6'000);
  }
  turns.pass(6'000);
  CHECK(turns.backlog.is_standing());
  turns.pass(kLongUs);
  CHECK_FALSE(turns.backlog.is_standing());
}

TEST_CASE("who is received from in every fourth turn waits for four") {
  Backlog backlog(kLongUs, kIntervalUs);
  std::uint64_t now_us = 1'000'000;
  for (int i = 0; i < 100; ++i) {
    backlog.begin_turn(now_us += 1'500, 4);
    backlog.note_more_waiting();
  }
  CHECK(backlog.turn_us() == 1'500);
  CHECK(backlog.is_standing());
  backlog.begin_turn(now_us += 1'500, 3);
  CHECK_FALSE(backlog.is_standing());
}

TEST_CASE("time that may have been waited away is no work") {
  Turns turns;
  turns.pass(0, false);
  for (int i = 0; i < 100; ++i) {
    turns.pass(250'000, false);
    CHECK(turns.backlog.turn_us() == 0);
    CHECK_FALSE(turns.backlog.is_standing());
  }
}

TEST_CASE("one very long turn is a hiccup, not a backlog") {
  Turns turns;
  turns.pass(0);
  turns.pass(90'000);
  CHECK_FALSE(turns.backlog.is_standing());
  turns.pass(1'000);
  turns.pass(90'000);
  CHECK_FALSE(turns.backlog.is_standing());
}

TEST_CASE("nothing is a backlog where no turn counts as long") {
  Backlog never(0, kIntervalUs);
  for (std::uint64_t now_us = 1; now_us < 10'000'000; now_us += 50'000) {
    never.begin_turn(now_us);
    never.note_more_waiting();
    CHECK_FALSE(never.is_standing());
  }
}

}  // namespace
}  // namespace pail::server
