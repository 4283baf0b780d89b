// What a run leaves in files: the time series, the percentiles, the picture.
#pragma once

#include <string>

#include "bench/load_run.hpp"

namespace pail::bench {

// Each to `path`. Empty: written; else why not.

// One row an interval, with a head line.
[[nodiscard]] std::string write_csv(const LoadResult& result, const std::string& path);
// The percentile format of HdrHistogram, in microseconds, which its plotters read.
[[nodiscard]] std::string write_hgrm(const Histogram& latencies_ns, const std::string& path);
// A PNG by gnuplot, which has to be installed: latency by percentile, throughput over time.
[[nodiscard]] std::string write_plot(const LoadResult& result, const std::string& title,
                                     const std::string& path);
// Empty, or why write_plot() cannot work: to be asked before the run.
[[nodiscard]] std::string fault_in_gnuplot();

[[nodiscard]] std::string hgrm_text(const Histogram& latencies_ns);

}  // namespace pail::bench
