// Concern: the token bucket is the one that callers of CL.THROTTLE know.
// Method: what redis-cell answered to them, recorded, against the engine under a frozen clock.
//
// `CL.THROTTLE key max_burst count period [quantity]` is a bucket of max_burst + 1, and quantity 0
// a peek. Times are whole seconds there: milliseconds cut off, then a begun second is a whole one.
#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/engine/engine_fixture.hpp"

using namespace pail::engine;
using namespace pail::test;

namespace {

using Answer = std::array<std::int64_t, 5>;

std::int64_t whole_seconds(std::uint64_t ns) {
  const std::uint64_t ms = ns / 1'000'000;
  return static_cast<std::int64_t>(ms / 1000 + (ms % 1000 != 0 ? 1 : 0));
}

Answer throttle(Worker& worker, const std::string& key, const Rate& rate, std::uint32_t quantity) {
  Request request = take(key, rate, quantity);
  if (quantity == 0) request.action = Action::peek;
  const Decision decision = decide(worker, request, kStart);
  const bool admitted = decision.verdict == Verdict::admitted;
  const bool waits = !admitted && decision.verdict != Verdict::never;
  return {admitted ? 0 : 1, decision.limit, decision.remaining,
          waits ? whole_seconds(decision.wait_ns) : -1, whole_seconds(decision.reset_ns)};
}

Answer parse_answer(const std::string& text) {
  Answer answer{};
  char comma = ',';
  std::istringstream in(text);
  for (std::size_t i = 0; i < answer.size(); ++i) {
    if (i > 0) in >> comma;
    in >> answer[i];
  }
  REQUIRE_FALSE(in.fail());
  REQUIRE(in.peek() == std::istringstream::traits_type::eof());
  return answer;
}

}  // namespace

TEST_CASE("recorded answers to CL.THROTTLE") {
  std::ifstream file(PAIL_CL_THROTTLE_VECTORS);
  Engine engine(Options{});
  const auto worker = engine.enroll();
  int keys = 0;
  int answers = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    CAPTURE(line);
    const std::size_t first = line.find('|');
    const std::size_t second = line.find('|', first + 1);
    REQUIRE(second != std::string::npos);
    std::istringstream limit(line.substr(0, first));
    std::istringstream quantities(line.substr(first + 1, second - first - 1));
    std::istringstream replies(line.substr(second + 1));
    std::uint32_t max_burst = 0;
    std::uint32_t count = 0;
    std::uint64_t period_s = 0;
    limit >> max_burst >> count >> period_s;
    REQUIRE_FALSE(limit.fail());
    const Rate rate{period_s * 1'000'000'000, count, max_burst + 1};
    const std::string key = std::to_string(keys++);

    std::uint32_t quantity = 0;
    std::string reply;
    while (replies >> reply) {
      quantities >> quantity;
      REQUIRE_FALSE(quantities.fail());
      CAPTURE(quantity);
      const Answer expected = parse_answer(reply);
      const Answer actual = throttle(*worker, key, rate, quantity);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        CHECK(actual[i] == expected[i]);
      }
      ++answers;
    }
    CHECK((quantities >> std::ws).eof());
  }
  CHECK(keys >= 500);
  CHECK(answers == 1684);
}

// `k 0 1 2` twice, and `u 15 30 60`: the answers that its documentation shows.
TEST_CASE("the documented answers to CL.THROTTLE") {
  Engine engine(Options{});
  const auto worker = engine.enroll();
  CHECK(throttle(*worker, "u", {60'000'000'000, 30, 16}, 1) == Answer{0, 16, 15, -1, 2});
  CHECK(throttle(*worker, "k", {2'000'000'000, 1, 1}, 1) == Answer{0, 1, 0, -1, 2});
  CHECK(throttle(*worker, "k", {2'000'000'000, 1, 1}, 1) == Answer{1, 1, 0, 2, 2});
}
