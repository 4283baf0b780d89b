// Concern: what a run writes and what it has to keep. Method: histograms with known contents.
#include "bench/output_files.hpp"

#include <doctest/doctest.h>

#include <string>

#include "bench/slo.hpp"

namespace pail::bench {
namespace {

Histogram one_to_hundred_us() {
  Histogram histogram;
  for (std::uint64_t us = 1; us <= 100; ++us) histogram.record(us * 1000);
  return histogram;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("percentiles in HdrHistogram's format") {
  const std::string text = hgrm_text(one_to_hundred_us());
  CHECK(has(text, "       Value     Percentile TotalCount 1/(1-Percentile)\n\n"));
  CHECK(has(text, "0.500000000000         50           2.00\n"));
  CHECK(has(text, "1.000000000000        100            inf\n"));
  CHECK(has(text, "#[Max     = "));
  CHECK(has(text, "Total count    =          100]"));
  CHECK(has(hgrm_text(Histogram()), "Total count    =            0]"));
}

TEST_CASE("mean and deviation by buckets") {
  const auto [mean, deviation] = one_to_hundred_us().mean_and_deviation();
  CHECK(mean == doctest::Approx(50'500).epsilon(0.01));
  CHECK(deviation == doctest::Approx(28'866).epsilon(0.01));
}

TEST_CASE("objectives as users write them") {
  const auto objectives = parse_objectives("p99=1ms,p99.9=5ms,max=2s");
  REQUIRE(objectives);
  REQUIRE(objectives->size() == 3);
  CHECK((*objectives)[1].percent == 99.9);
  CHECK((*objectives)[1].limit_ns == 5'000'000);
  CHECK((*objectives)[2].percent == 100);
  for (const char* text :
       {"p99", "99=1ms", "p0=1ms", "p101=1ms", "p99=fast", "p99=1ms,,", "=1ms"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_objectives(text));
  }
}

TEST_CASE("an objective is kept or missed") {
  const Histogram histogram = one_to_hundred_us();
  CHECK(missed(*parse_objectives("p99=101us,max=102us"), histogram).empty());
  const auto lines = missed(*parse_objectives("p50=1ms,p99=90us"), histogram);
  REQUIRE(lines.size() == 1);
  CHECK(has(lines[0], "p99"));
  CHECK(missed(*parse_objectives("p50=1ms"), Histogram()).size() == 1);
}

}  // namespace
}  // namespace pail::bench
