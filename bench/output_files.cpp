#include "bench/output_files.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace pail::bench {
namespace {

constexpr int kTicksPerHalving = 5;

std::string write_text(const std::string& text, const std::string& path) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? "" : fmt::format("cannot write {}: {}", path, std::strerror(errno));
}

// The percentiles that are worth a row: five for every halving of what is left, until the rows say
// nothing new. The steps are HdrHistogram's.
std::vector<double> reporting_levels(std::uint64_t total) {
  std::vector<double> levels;
  double level = 0;
  while (total != 0 && (100 - level) / 100 * static_cast<double>(total) >= 0.5) {
    levels.push_back(level);
    const double halvings = std::floor(std::log2(100 / (100 - level))) + 1;
    level += 100 / (kTicksPerHalving * std::exp2(halvings));
  }
  levels.push_back(100);
  return levels;
}

// What gnuplot draws `name` from, as a block in its own script.
std::string data_block(const std::string& name, const std::string& rows) {
  return fmt::format("${} << END\n{}END\n", name, rows);
}

// `text` within a gnuplot string in double quotes.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter == '\n' ? ' ' : letter;
  }
  return out;
}

std::string plot_script(const LoadResult& result, const std::string& title,
                        const std::string& path) {
  std::string latencies;
  for (const double level : reporting_levels(result.latencies_ns.total())) {
    if (level >= 100) break;
    latencies += fmt::format("{} {}\n", 100 / (100 - level),
                             static_cast<double>(result.latencies_ns.percentile(level)) / 1e3);
  }
  std::string rates;
  for (const TimelineRow& row : result.timeline) {
    rates += fmt::format("{} {} {}\n", row.at_s, row.requests_per_s, row.refused_per_s);
  }
  // A plot of nothing is an error to gnuplot.
  if (latencies.empty()) latencies = "1 1\n";
  if (rates.empty()) rates = "0 0 0\n";
  return data_block("latencies", latencies) + data_block("rates", rates) +
         fmt::format(
             "set terminal pngcairo size 1000,900\n"
             "set output \"{}\"\n"
             "set multiplot layout 2,1 title \"{}\" noenhanced\n"
             "set grid\n"
             "set logscale x\n"
             "set xlabel \"percentile\"\n"
             "set ylabel \"latency, us\"\n"
             "set xtics (\"0\" 1, \"50\" 2, \"90\" 10, \"99\" 100, \"99.9\" 1000, \"99.99\" 1e4, "
             "\"99.999\" 1e5, \"99.9999\" 1e6)\n"
             "plot $latencies using 1:2 with lines linewidth 2 notitle\n"
             "unset logscale x\n"
             "set xtics auto\n"
             "set xlabel \"seconds\"\n"
             "set ylabel \"a second\"\n"
             "set yrange [0:*]\n"
             "plot $rates using 1:2 with lines linewidth 2 title \"answers\", "
             "$rates using 1:3 with lines title \"refusals\"\n"
             "unset multiplot\n",
             quoted(path), quoted(title));
}

}  // namespace

std::string write_csv(const LoadResult& result, const std::string& path) {
  std::string text =
      "at_s,is_measured,requests_per_s,refused_per_s,errors_per_s,p50_us,p99_us,p99.9_us\n";
  for (const TimelineRow& row : result.timeline) {
    text += fmt::format("{:.3f},{},{:.1f},{:.1f},{:.1f},{:.3f},{:.3f},{:.3f}\n", row.at_s,
                        row.is_measured ? 1 : 0, row.requests_per_s, row.refused_per_s,
                        row.errors_per_s, row.p50_ns / 1e3, row.p99_ns / 1e3, row.p999_ns / 1e3);
  }
  return write_text(text, path);
}

std::string hgrm_text(const Histogram& latencies_ns) {
  std::string text = fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile",
                                 "TotalCount", "1/(1-Percentile)");
  const std::uint64_t total = latencies_ns.total();
  for (const double level : reporting_levels(total)) {
    const std::uint64_t value = latencies_ns.percentile(level);
    const std::uint64_t count = total - latencies_ns.count_above(value);
    const std::string inverse = level >= 100 ? "inf" : fmt::format("{:.2f}", 100 / (100 - level));
    text += fmt::format("{:>12.3f} {:>14.12f} {:>10} {:>14}\n", static_cast<double>(value) / 1e3,
                        level / 100, count, inverse);
  }
  const auto [mean, deviation] = latencies_ns.mean_and_deviation();
  text += fmt::format("#[Mean    = {:>12.3f}, StdDeviation   = {:>12.3f}]\n", mean / 1e3,
                      deviation / 1e3);
  text += fmt::format("#[Max     = {:>12.3f}, Total count    = {:>12}]\n",
                      static_cast<double>(latencies_ns.percentile(100)) / 1e3, total);
  text += fmt::format("#[Buckets = {:>12}, SubBuckets     = {:>12}]\n",
                      HistogramLayout::kBuckets / HistogramLayout::kSubBuckets,
                      HistogramLayout::kSubBuckets);
  return text;
}

std::string write_hgrm(const Histogram& latencies_ns, const std::string& path) {
  return write_text(hgrm_text(latencies_ns), path);
}

std::string fault_in_gnuplot() {
  const int status = std::system("gnuplot --version >/dev/null 2>&1");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return "gnuplot is not installed: apt-get install gnuplot-nox, or leave --plot out";
}

std::string write_plot(const LoadResult& result, const std::string& title,
                       const std::string& path) {
  FILE* const gnuplot = popen("gnuplot", "w");
  if (gnuplot == nullptr) return fmt::format("gnuplot: {}", std::strerror(errno));
  const std::string script = plot_script(result, title, path);
  std::fwrite(script.data(), 1, script.size(), gnuplot);
  const int status = pclose(gnuplot);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  return fmt::format("gnuplot could not write {}", path);
}

}  // namespace pail::bench
