// How limits are written: known values, round trips over random ones, and errors that say what
// would be right.
#include "protocol/limit_text.hpp"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/random.hpp"

namespace pail::protocol {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMs;

template <class Result>
void check_error(const Result& result, std::string_view hint) {
  REQUIRE_FALSE(result.has_value());
  CAPTURE(result.error());
  CHECK(result.error().find(hint) != std::string::npos);
}

TEST_CASE("limit text: rates as people write them") {
  const auto is = [](std::string_view text, std::uint32_t count, std::uint64_t period_ns) {
    CAPTURE(text);
    const auto rate = parse_rate(text);
    REQUIRE(rate.has_value());
    CHECK(*rate == WrittenRate{count, period_ns});
    CHECK(format_rate(*rate) == text);
  };
  is("100/s", 100, kSecond);
  is("10/min", 10, 60 * kSecond);
  is("5/h", 5, 3600 * kSecond);
  is("1000/d", 1000, 86'400 * kSecond);
  is("3/250ms", 3, 250 * kMs);
  is("1/366d", 1, kMaxPeriodNs);
  is("4294967295/ns", 4'294'967'295, 1);
  is("7/11us", 7, 11'000);
  is("1/15d", 1, 15 * 86'400 * kSecond);
  CHECK(format_rate(*parse_rate("100/1s")) == "100/s");
  CHECK(format_rate(*parse_rate("1/60000ms")) == "1/min");
}

TEST_CASE("limit text: wrong rates") {
  check_error(parse_rate(""), "no period");
  check_error(parse_rate("100"), "no period");
  check_error(parse_rate("0/s"), "at least 1");
  check_error(parse_rate("-5/s"), "negative");
  check_error(parse_rate("/s"), "not a whole number");
  check_error(parse_rate("+5/s"), "not a whole number");
  check_error(parse_rate("1.5/s"), "not a whole number");
  check_error(parse_rate(" 5/s"), "not a whole number");
  check_error(parse_rate("4294967296/s"), "at most 4294967295");
  check_error(parse_rate("4294967297/s"), "at most 4294967295");  // 1, in 32 bits
  check_error(parse_rate("99999999999999999999999/s"), "at most 4294967295");
  check_error(parse_rate("5/"), "not a number and one of");
  check_error(parse_rate("5/m"), "ns, us, ms, s, min, h, d");
  check_error(parse_rate("5/month"), "ns, us, ms, s, min, h, d");
  check_error(parse_rate("5/s/s"), "ns, us, ms, s, min, h, d");
  check_error(parse_rate("5/10"), "no unit");
  check_error(parse_rate("5/0s"), "at least 1");
  check_error(parse_rate("5/-1s"), "negative");
  check_error(parse_rate("5/367d"), "366d at most");
  check_error(parse_rate("5/1S"), "not one of");
  check_error(parse_rate("5/18446744073709551615d"), "too long");
  check_error(parse_rate("5/18446744073709551616ns"), "too large");
}

TEST_CASE("limit text: durations") {
  CHECK(parse_duration_ns("250ms") == 250 * kMs);
  CHECK(parse_duration_ns("2h") == 7200 * kSecond);
  CHECK(parse_duration_ns("18446744073709551615ns") == ~std::uint64_t{0});
  CHECK(format_duration_ns(0) == "0s");
  CHECK(format_duration_ns(1500 * kMs) == "1500ms");
  CHECK(format_duration_ns(~std::uint64_t{0}) == "18446744073709551615ns");
  check_error(parse_duration_ns(""), "no number");
  check_error(parse_duration_ns("s"), "no number");
  check_error(parse_duration_ns("5"), "no unit");
  check_error(parse_duration_ns("5 s"), "not one of");
  check_error(parse_duration_ns("1-5s"), "not a whole number");
}

TEST_CASE("limit text: named policies") {
  const auto policy = parse_policy("partner=10/s,20");
  REQUIRE(policy.has_value());
  CHECK(*policy == WrittenPolicy{"partner", {kSecond, 10, 20}});
  CHECK(parse_policy("a.b_c-d/e:F9=1/366d,4").has_value());
  CHECK(parse_policy(std::string(64, 'n') + "=1/s,1").has_value());
  check_error(parse_policy(std::string(65, 'n') + "=1/s,1"), "1 to 64");
  check_error(parse_policy("=1/s,1"), "1 to 64");
  check_error(parse_policy("a b=1/s,1"), "1 to 64");
  check_error(parse_policy("caf\xC3\xA9=1/s,1"), "1 to 64");
  check_error(parse_policy(""), "name=rate,burst");
  check_error(parse_policy("partner"), "name=rate,burst");
  check_error(parse_policy("partner=10/s"), "name=rate,burst");
  check_error(parse_policy("10/s,20"), "name=rate,burst");
  check_error(parse_policy("a=10/s,0"), "at least 1");
  check_error(parse_policy("a=10/s,-1"), "negative");
  check_error(parse_policy("a=10/s,4294967296"), "at most 4294967295");
  check_error(parse_policy("a=10/s,4294967297"), "at most 4294967295");
  check_error(parse_policy("a=10/s,"), "not a whole number");
  check_error(parse_policy("a=10/s,2,3"), "not a whole number");
  check_error(parse_policy("a=0/s,5"), "at least 1");
}

TEST_CASE("limit text: what is formatted parses to the same rate") {
  test::Random random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::uint64_t period_ns = random.magnitude(1, kMaxPeriodNs);
    if (random.one_in(2) && period_ns > kSecond) period_ns -= period_ns % kSecond;
    const WrittenRate rate{static_cast<std::uint32_t>(random.magnitude(1, UINT32_MAX)), period_ns};
    const auto again = parse_rate(format_rate(rate));
    REQUIRE(again.has_value());
    REQUIRE(*again == rate);
  }
}

}  // namespace
}  // namespace pail::protocol
