// Concern: the keys of a run are the keys that were asked for. Method: digits against the standard
// formatting; shares of drawn keys against their distribution, with room for chance (a wrong
// formula is off by far more).
#include "bench/key_source.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>

#include "tests/support/random.hpp"

namespace pail::bench {
namespace {

std::string digits_of(std::uint32_t number, std::size_t digits) {
  std::string text(digits, '?');
  write_key_digits(number, reinterpret_cast<std::byte*>(text.data()) + digits, digits);
  return text;
}

TEST_CASE("digits are the number in hexadecimal") {
  for (const std::uint32_t number :
       {0u, 1u, 9u, 10u, 15u, 16u, 0x9Au, 0xBEEFu, 0x01234567u, 0x89ABCDEFu, 0xFFFFFFFFu}) {
    CHECK(digits_of(number, 8) == fmt::format("{:08x}", number));
  }
  Random random(test::seed());
  for (int i = 0; i < 10'000; ++i) {
    const auto number = static_cast<std::uint32_t>(random.next());
    REQUIRE(digits_of(number, 8) == fmt::format("{:08x}", number));
  }
}

TEST_CASE("short keys hold the last digits") {
  CHECK(digits_of(0xBEEF, 4) == "beef");
  CHECK(digits_of(0xBEEF, 3) == "eef");
  CHECK(digits_of(0x7, 1) == "7");
  CHECK(distinct_keys(1) == 16);
  CHECK(distinct_keys(4) == 65536);
  CHECK(distinct_keys(8) == std::uint64_t{1} << 32);
  CHECK(distinct_keys(1024) == std::uint64_t{1} << 32);
}

TEST_CASE("the filler makes up the rest of a key") {
  CHECK(key_filler(1).empty());
  CHECK(key_filler(8).empty());
  CHECK(key_filler(16) == "pail-key");
  CHECK(key_filler(1024).size() == 1016);
}

TEST_CASE("distributions as they are written") {
  using Kind = Distribution::Kind;
  CHECK(parse_distribution("uniform")->kind == Kind::uniform);
  CHECK(parse_distribution("hot")->kind == Kind::hot);
  CHECK(parse_distribution("zipf")->exponent == doctest::Approx(0.99));
  CHECK(parse_distribution("zipf:0.5")->exponent == doctest::Approx(0.5));
  for (const char* text : {"uniform", "hot", "zipf:0.99", "zipf:0.5"}) {
    CHECK(format_distribution(*parse_distribution(text)) == text);
  }
  for (const char* text :
       {"", "Uniform", "zipf:", "zipf:0", "zipf:1", "zipf:-1", "zipf:0.9x", "zipf:nan", "hot:1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_distribution(text));
  }
  CHECK(parse_distribution("zipf:2").error().find("between 0 and 1") != std::string::npos);
}

std::map<std::uint32_t, int> draw(const char* distribution, std::uint32_t keys, int draws) {
  KeySource source(*parse_distribution(distribution), keys, test::seed());
  std::map<std::uint32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[source.next()];
  return counts;
}

TEST_CASE("uniform keys come equally often, hot is one key") {
  const auto uniform = draw("uniform", 10, 100'000);
  CHECK(uniform.size() == 10);
  for (const auto& [key, count] : uniform) {
    CHECK(key < 10);
    CHECK(count > 9'000);
    CHECK(count < 11'000);
  }
  CHECK(draw("hot", 10, 1'000) == std::map<std::uint32_t, int>{{0, 1'000}});
}

TEST_CASE("zipf's keys come in proportion to 1 / rank^exponent") {
  for (const std::uint32_t keys : {1u, 2u, 3u, 1000u}) {
    const auto counts = draw("zipf:0.99", keys, 200'000);
    CAPTURE(keys);
    CHECK(counts.rbegin()->first < keys);
    double zeta = 0;
    for (std::uint32_t i = 1; i <= keys; ++i) zeta += std::pow(1.0 / i, 0.99);
    CHECK(counts.at(0) == doctest::Approx(200'000 / zeta).epsilon(0.05));
    if (keys >= 2) {
      CHECK(counts.at(1) == doctest::Approx(200'000 / zeta / std::pow(2, 0.99)).epsilon(0.05));
    }
  }
}

TEST_CASE("a seed gives the same keys again, another one others") {
  const auto uniform = *parse_distribution("uniform");
  KeySource a(uniform, ~0u, 7), b(uniform, ~0u, 7), c(uniform, ~0u, derive_seed(7, 1));
  int equal = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t key = a.next();
    REQUIRE(b.next() == key);
    if (c.next() == key) ++equal;
  }
  CHECK(equal < 5);
}

}  // namespace
}  // namespace pail::bench
