// Time for microbenchmarks: the median of several runs, in ns an operation.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace pail::bench {

// Keeps the compiler from dropping the work that made `value`.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// Runs `run`, which does `operations` of something, 11 times.
template <class F>
double median_ns(std::uint64_t operations, F&& run) {
  std::array<double, 11> results{};
  for (double& result : results) {
    const auto start = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    result = taken.count() / static_cast<double>(operations);
  }
  std::nth_element(results.begin(), results.begin() + 5, results.end());
  return results[5];
}

}  // namespace pail::bench
