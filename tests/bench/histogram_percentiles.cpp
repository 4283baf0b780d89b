// Reads values, one a line, and prints "percentile value" for the percentiles given as arguments,
// then count, mean and deviation: our half of hdr_histogram_test.sh.
#include <fmt/format.h>

#include <cstdlib>
#include <iostream>
#include <memory>

#include "bench/histogram.hpp"

int main(int argc, char** argv) {
  const auto histogram = std::make_unique<pail::bench::Histogram>();
  std::uint64_t value = 0;
  while (std::cin >> value) histogram->record(value);
  for (int i = 1; i < argc; ++i) {
    fmt::print("{} {}\n", argv[i], histogram->percentile(std::strtod(argv[i], nullptr)));
  }
  const auto [mean, deviation] = histogram->mean_and_deviation();
  fmt::print("count {}\nmean {}\ndeviation {}\n", histogram->total(), mean, deviation);
}
