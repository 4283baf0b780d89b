// The table under every schedule. What is checked at each step and after each schedule is said in
// world.hpp; that it would be noticed is shown by flaws_test.cpp.
//
// Programs of the suite are run with situations in turn, a share of them here and all of them by
// PAIL_MODEL=long; programs drawn by chance come from all combinations of operations. A violation
// prints the setting and a schedule, step by step, with as few preemptions as it takes.
#include <doctest/doctest.h>

#include "tests/model/explore_all.hpp"
#include "tests/model/suite.hpp"
#include "tests/support/random.hpp"

using namespace pail::model;
using pail::test::Random;

namespace {

using Programs = std::vector<std::vector<std::string>>;

// One situation in `share`, another one first for each program.
std::vector<Job> jobs_of(const Programs& programs, std::size_t share, unsigned preemptions) {
  std::vector<Job> jobs;
  std::size_t i = 0;
  for (const std::vector<std::string>& program : programs) {
    for (const Situation& situation : situations()) {
      if (!is_long() && ++i % share != 0) continue;
      jobs.push_back({.setting = make_setting(program, situation),
                      .limits = {.preemptions = preemptions + (is_long() ? 1U : 0U)}});
    }
  }
  return jobs;
}

std::string draw_program(Random& random, std::size_t operations) {
  constexpr std::string_view kOperations = "1111122233pzffMMMmmNNSQO";
  std::string program;
  for (std::size_t i = 0; i < operations; ++i) {
    if (random.one_in(6)) program += random.one_in(2) ? "CR" : random.one_in(2) ? "R" : "C";
    program += kOperations[random.below(kOperations.size())];
  }
  return program;
}

Setting draw_setting(Random& random, std::size_t threads, std::size_t operations) {
  std::vector<std::string> programs;
  for (std::size_t t = 0; t < threads; ++t) programs.push_back(draw_program(random, operations));
  const std::vector<Situation> all = situations();
  return make_setting(programs, all[random.below(all.size())]);
}

void check(const std::vector<Job>& jobs) {
  const Total total = explore_all(jobs);
  MESSAGE(jobs.size() << " settings, " << total.runs << " schedules, " << total.states
                      << " states");
  REQUIRE_MESSAGE(total.fault.empty(), total.fault);
  CHECK(total.runs > 100 * jobs.size());
}

}  // namespace

TEST_CASE("every schedule of two threads with three operations, up to 3 preemptions") {
  check(jobs_of(two_threads(), 5, 3));
}

TEST_CASE("every schedule of three threads with two operations, up to 2 preemptions") {
  check(jobs_of(three_threads(), 5, 2));
}

TEST_CASE("every schedule of programs drawn by chance") {
  Random random(80);
  std::vector<Job> jobs;
  for (int i = 0; i < (is_long() ? 20'000 : 400); ++i) {
    jobs.push_back({.setting = draw_setting(random, 2, 3), .limits = {.preemptions = 3}});
    jobs.push_back({.setting = draw_setting(random, 3, 2), .limits = {.preemptions = 2}});
  }
  check(jobs);
}

TEST_CASE("longer programs by random schedules, relaxed accesses in any order too") {
  Random random(81);
  std::vector<Job> jobs;
  for (int i = 0; i < (is_long() ? 20'000 : 1'000); ++i) {
    jobs.push_back({.setting = draw_setting(random, random.between(2, 3), random.between(3, 5)),
                    .limits = {.random_runs = 1'000, .seed = random.next()}});
  }
  check(jobs);
}
