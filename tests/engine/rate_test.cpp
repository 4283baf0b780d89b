// What makes a rate usable, and whether people are told why one is not.
#include "server/engine/policy_spec.hpp"
#include "server/engine/rate.hpp"

#include <doctest/doctest.h>

#include "tests/support/random.hpp"

using namespace pail::engine;

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint32_t kMax32 = ~std::uint32_t{0};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("usable rates") {
  CHECK(check_rate({kSecondNs, 10, 20}).empty());
  CHECK(check_rate({1, 1, 1}).empty());
  CHECK(check_rate({1, kMax32, kMax32}).empty());
  CHECK(check_rate({kMaxPeriodNs, 1, 4}).empty());
  CHECK(check_rate({kMaxPeriodNs, kMax32, kMax32}).empty());
}

TEST_CASE("each fault is named, with what would be right") {
  CHECK(has(check_rate({0, 1, 1}), "period is 0"));
  CHECK(has(check_rate({kMaxPeriodNs + 1, 1, 1}), "366"));
  CHECK(has(check_rate({~std::uint64_t{0}, 1, 1}), "366"));
  CHECK(has(check_rate({kSecondNs, 0, 1}), "count is 0"));
  CHECK(has(check_rate({kSecondNs, 1, 0}), "burst is 0"));
}

TEST_CASE("1 per 366 days: burst 4 loads, burst 5 is an error that says why") {
  CHECK(check_rate({kMaxPeriodNs, 1, 4}).empty());
  const std::string fault = check_rate({kMaxPeriodNs, 1, 5});
  CHECK(has(fault, "burst x period / count is too long"));
  CHECK(has(fault, "5.0 years"));
  CHECK(has(fault, "can be up to 4"));
  CHECK(make_token_bucket({kMaxPeriodNs, 1, 5}).error() == RateFault::horizon);
  CHECK(has(check_rate({kMaxPeriodNs, 1, kMax32}), "can be up to 4"));
}

TEST_CASE("the burst that the error names is the largest usable one") {
  pail::test::Random random(2);
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    Rate rate{random.magnitude(1, kMaxPeriodNs),
              static_cast<std::uint32_t>(random.magnitude(1, 1'000'000)),
              static_cast<std::uint32_t>(random.magnitude(1, kMax32))};
    const std::string fault = check_rate(rate);
    if (fault.empty()) continue;
    ++refused;
    const auto named = std::stoull(fault.substr(fault.rfind(' ')));
    rate.burst = static_cast<std::uint32_t>(named);
    CHECK(check_rate(rate).empty());
    rate.burst += 1;
    CHECK_FALSE(check_rate(rate).empty());
  }
  CHECK(refused > 100);
}

TEST_CASE("rounding is warned of where it costs more than 0.1%") {
  CHECK(warn_rate({kSecondNs, 10, 20}).empty());
  CHECK(warn_rate({kSecondNs, 1'000'000, 1}).empty());
  CHECK(warn_rate({kSecondNs, 3, 1}).empty());
  CHECK(warn_rate({kSecondNs, 16'000'000, 1}).empty());  // T = 1000 exactly
  CHECK(warn_rate({1'000'000, 15'985, 1}).empty());      // T = 1001, 0.0061% too many
  CHECK(has(warn_rate({kSecondNs, 700'000'000, 1}), "less than asked"));
  CHECK(has(warn_rate({1, kMax32, 1}), "16000000000 a second"));
  CHECK(warn_rate({0, 1, 1}).empty());
}

TEST_CASE("a policy list is refused with the name of the culprit") {
  const Rate rate{kSecondNs, 1, 1};
  const auto check = [](std::vector<NamedRate> rates) { return check_policies(rates); };
  CHECK(check({}).empty());
  CHECK(check({{"a", 1, rate}, {"b", 2, rate}}).empty());
  CHECK(has(check({{"a", 1, rate}, {"b", 1, rate}}), "\"a\" and \"b\" have the same id"));
  CHECK(has(check({{"a", 1, rate}, {"a", 1, rate}}), "\"a\" is given twice"));
  CHECK(has(check({{"api", 3, {kSecondNs, 0, 1}}}), "\"api\": the count is 0"));
  CHECK(has(check({{"", 3, rate}}), "no name"));
  CHECK(has(check({{"x", 0, rate}}), "id 0"));
}
