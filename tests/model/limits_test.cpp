// Sliding windows, permits and layers under every schedule; and that the model would notice if one
// of their rules were left out.
#include <doctest/doctest.h>

#include "tests/model/explore_all.hpp"
#include "tests/model/limits_world.hpp"
#include "tests/support/random.hpp"

using namespace pail::model;
using pail::test::Random;

namespace {

using Programs = std::vector<std::string>;

// Each with operations of one kind of limit, as only those meet.
std::string draw_program(Random& random, std::string_view operations, std::size_t length) {
  std::string program;
  for (std::size_t i = 0; i < length; ++i) {
    if (random.one_in(3)) program += random.one_in(2) ? "CR" : random.one_in(2) ? "R" : "C";
    program += operations[random.below(operations.size())];
  }
  return program;
}

void check_drawn(std::uint64_t stream, std::string_view operations) {
  Random random(stream);
  std::uint64_t runs = 0;
  const int rounds = is_long() ? 50'000 : 1'000;
  for (int round = 0; round < rounds; ++round) {
    const bool is_three = random.one_in(3);
    LimitsSetting setting;
    for (int t = 0; t < (is_three ? 3 : 2); ++t) {
      setting.programs.push_back(draw_program(random, operations, is_three ? 2 : 3));
    }
    const LimitsReport report = explore(setting, is_three ? 2 : 3);
    std::string name;
    for (const std::string& program : setting.programs) name += " " + program;
    REQUIRE_MESSAGE(report.violation.empty(), name << ": " << report.violation);
    runs += report.runs;
  }
  MESSAGE(rounds << " programs, " << runs << " schedules");
}

struct Catch {
  LimitsFlaw flaw;
  Programs programs;
  std::string violation;
};

const std::vector<Catch>& catches() {
  static const std::vector<Catch> all = {
      {LimitsFlaw::no_closed_bit, {"ss", "CRs"}, "more is admitted than the window"},
      {LimitsFlaw::release_without_round,
       {"aCCCRe", "CCCRa", "CCCRa"},
       "more hold a permit than there are"},
      {LimitsFlaw::give_back_by_turn_clock, {"x", "2CR111"}, "more is admitted than bucket A"},
  };
  return all;
}

}  // namespace

TEST_CASE("a sliding window admits its limit, by every schedule") {
  check_drawn(82, "sssB");
}

TEST_CASE("no more hold a permit than there are, by every schedule") {
  check_drawn(83, "aaaneeB");
}

TEST_CASE("several limits in one decision are charged all or none, by every schedule") {
  check_drawn(84, "xxx12B");
  check_drawn(85, "yys2B");
  for (const Programs& programs :
       {Programs{"x", "x"}, Programs{"xx", "x"}, Programs{"x", "x", "x"}}) {
    const LimitsReport report = explore({programs}, 3);
    CHECK_MESSAGE(report.violation.empty(), report.violation);
    CHECK(report.runs > 50);
  }
}

TEST_CASE("every flaw of the limits is caught, and nothing where it is not") {
  CHECK(catches().size() == kLimitsFlaws);
  for (const Catch& known : catches()) {
    CAPTURE(static_cast<int>(known.flaw));
    CHECK(explore({known.programs, known.flaw}, 3).violation == known.violation);
    CHECK(explore({known.programs}, 3).violation == "");
  }
}
