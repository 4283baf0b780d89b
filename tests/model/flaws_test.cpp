// Would the explorer notice? Each rule of the table's protocol is left out in turn, and the model
// must say what goes wrong: so every rule is needed, and every check can fail.
//
// For each flaw, the setting of the suite that shows it by the fewest preemptions and the fewest
// steps, what is seen, and the same setting without the flaw, which must be clean. When the suite
// or the table changes, the last case below finds them anew:
//
//   PAIL_FLAW=21 model_tests --no-skip --test-case='*soonest*'     (without PAIL_FLAW: all)
#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <set>

#include "tests/model/explore_all.hpp"
#include "tests/model/suite.hpp"

using namespace pail::model;
using pail::engine::Flaw;

namespace {

struct Catch {
  Flaw flaw;
  std::vector<std::string> programs;
  Situation situation;
  unsigned preemptions;
  std::string violation;
};

constexpr const char* kLost = "a take is lost: a word is worth less than it should be";
constexpr const char* kUndone = "a lowering is undone: a word is worth more than it should be";

const std::vector<Catch>& catches() {
  static const std::vector<Catch> all = {
      {Flaw::drop_by_own_clock, {"CRM", "1", "11"}, {2, 0, false, 2}, 0, kLost},
      {Flaw::no_born_floor, {"CRM", "1", "11"}, {1, 0, false, 1}, 0, kLost},
      {Flaw::born_not_monotone, {"M", "CRM", "11"}, {1, 0, true, 1}, 0, kLost},
      {Flaw::frozen_zero_is_done, {"M", "N", "1"}, {1, 0, true, 1}, 1, kLost},
      {Flaw::frozen_zero_clears_carry, {"MN1", "N11"}, {1, 5, true, 1}, 1, kLost},
      {Flaw::tombstone_drops_carry, {"31M", "12M"}, {2, 0, false, 2}, 0, kLost},
      {Flaw::other_frozen_sends_on,
       {"M", "CR1", "1"},
       {2, 0, true, 1},
       0,
       "two live entries of one key"},
      {Flaw::already_frozen_is_done, {"M1", "m1", "p1"}, {2, 0, true, 1}, 1, kLost},
      {Flaw::idle_before_freeze, {"CRM1", "R1f", "1"}, {4, 0, true, 2}, 1, kLost},
      {Flaw::cursor_before_work, {"M1", "m1", "p1"}, {2, 0, true, 1}, 1, kLost},
      {Flaw::raise_to_max, {"M1", "z1"}, {1, 0, false, 1}, 1, kUndone},
      {Flaw::reset_to_zero, {"M1", "z1"}, {2, 4, true, 2}, 0, kUndone},
      {Flaw::no_tombstones, {"M1", "1C1"}, {0, 0, true, 1}, 1, "two live entries of one key"},
      {Flaw::skip_when_crowded, {"CRM1", "11"}, {2, 7, true, 1}, 0, kLost},
      {Flaw::refund_by_turn_clock,
       {"1f", "CCR11", "M"},
       {4, 0, true, 2},
       2,
       "more is admitted than the bound"},
      {Flaw::retire_before_unlink,
       {"NCRN", "11"},
       {2, 5, true, 1},
       0,
       "a freed array is still in the chain"},
      {Flaw::free_at_once, {"M1", "m1", "p1"}, {1, 3, false, 2}, 1, "a freed array is touched"},
      {Flaw::lost_claim_moves_on,
       {"M", "CR1", "1"},
       {0, 0, false, 1},
       1,
       "two live entries of one key"},
      {Flaw::copy_counts_at_claim, {"m1m", "1mM"}, {2, 0, false, 1}, 0, kLost},
      {Flaw::start_at_newest, {"M", "CR1", "1"}, {2, 0, true, 1}, 0, "two live entries of one key"},
      {Flaw::near_over_frozen, {"11M", "11M"}, {1, 3, false, 1}, 0, "a frozen word changes"},
      {Flaw::near_without_floor, {"CRM1", "11"}, {1, 0, false, 1}, 1, kLost},
      {Flaw::near_floor_first, {"CRM1", "11"}, {1, 0, false, 1}, 2, kLost},
      {Flaw::near_decides_once,
       {"M", "1", "1"},
       {4, 0, false, 1},
       1,
       "a take is lost: it changed nothing"},
  };
  return all;
}

// The setting where a flaw shows by the fewest preemptions, and there the shortest schedule.
std::optional<Catch> find_soonest(Flaw flaw) {
  std::optional<Catch> best;
  std::size_t steps = 0;
  for (unsigned preemptions = 0; preemptions <= 3 && !best; ++preemptions) {
    for (const auto* suite : {&two_threads(), &three_threads()}) {
      for (const std::vector<std::string>& programs : *suite) {
        for (const Situation& situation : situations()) {
          const Report report = explore(make_setting(programs, situation, flaw), {preemptions});
          if (report.violation.empty() || (best && report.trace.size() >= steps)) continue;
          best = Catch{flaw, programs, situation, preemptions, report.violation};
          steps = report.trace.size();
        }
      }
    }
  }
  return best;
}

}  // namespace

TEST_CASE("every flaw is caught, and nothing where it is not") {
  for (const Catch& known : catches()) {
    const Setting flawed = make_setting(known.programs, known.situation, known.flaw);
    CAPTURE(flawed.name());
    CAPTURE(static_cast<int>(known.flaw));
    const Report report = explore(flawed, {known.preemptions});
    CHECK(report.violation == known.violation);
    CHECK(report.trace.size() > 5);

    const Setting sound = make_setting(known.programs, known.situation);
    const Report clean = explore(sound, {known.preemptions + 1});
    CHECK_MESSAGE(clean.violation.empty(), tell(sound, clean));
  }
}

TEST_CASE("no flaw is forgotten") {
  std::set<Flaw> caught;
  for (const Catch& known : catches()) caught.insert(known.flaw);
  CHECK(caught.size() == pail::engine::kFlaws);
  CHECK(!caught.contains(Flaw::none));
}

TEST_CASE("where each flaw is caught soonest" * doctest::skip()) {
  const char* const only = std::getenv("PAIL_FLAW");
  for (std::size_t i = 1; i <= pail::engine::kFlaws; ++i) {
    if (only != nullptr && i != std::strtoul(only, nullptr, 10)) continue;
    const std::optional<Catch> found = find_soonest(static_cast<Flaw>(i));
    REQUIRE_MESSAGE(found.has_value(), "flaw " << i << " is not caught");
    std::string programs;
    for (const std::string& program : found->programs) programs += " " + program;
    MESSAGE("flaw " << i << ":" << programs << ", situation {" << found->situation.start << ", "
                    << found->situation.shape << ", " << found->situation.spread << ", "
                    << found->situation.increment << "}, " << found->preemptions
                    << " preemptions: " << found->violation);
  }
}
