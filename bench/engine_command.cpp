// `pail-bench engine`: the limiter in process, beside a bare table; growing; memory a key.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "bench/command.hpp"
#include "bench/engine_growth.hpp"
#include "bench/engine_measure.hpp"
#include "bench/report.hpp"
#include "protocol/limit_text.hpp"

namespace pail::bench {
namespace {

struct Arguments {
  std::vector<std::uint32_t> keys = {1'000'000};
  std::vector<std::string> scenarios = {"uniform", "zipf:0.99", "hot", "refused"};
  std::vector<std::uint32_t> growth_keys = {20'000'000};
  std::optional<std::uint64_t> seed;
  std::string json;
  MeasureOptions measure;
};

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

void print_measurement(const Measurement& m) {
  fmt::print(stderr, "{:>11} {:>10} {:>8} {:>10} {:>10} {:>7.2f} {:>15}\n", m.keys,
             format_scenario(m.scenario), m.threads, format_count(m.bare_per_s),
             format_count(m.engine_per_s), m.ratio,
             fmt::format("{:.2f}..{:.2f}", m.ratio_least, m.ratio_most));
}

void print_growth(const GrowthResult& growth) {
  const auto turns = [](std::string_view name, const Histogram& h, std::uint64_t stalls) {
    const auto at = [&h](double percent) {
      return format_ns(static_cast<double>(h.percentile(percent)));
    };
    fmt::print(
        stderr,
        "  {:<8} turns of 16: p50 {}  p99 {}  p99.9 {}  p99.99 {}  max {}; above 1 ms: {}, of "
        "them running: {}\n",
        name, at(50), at(99), at(99.9), at(99.99), at(100), h.count_above(kStallNs), stalls);
  };
  fmt::print(stderr, "growing to {} keys, {} thread{}: {:.2f} s, {}/s\n", growth.keys,
             growth.threads, growth.threads == 1 ? "" : "s", growth.seconds,
             format_count(growth.keys / growth.seconds));
  turns("growing", growth.growing_ns, growth.stalls);
  turns("steady", growth.steady_ns, growth.steady_stalls);
  fmt::print(stderr, "  memory   bytes a live key: mean {:.1f}, most {:.1f}, at the end {:.1f}\n",
             growth.bytes_a_key_mean, growth.bytes_a_key_most, growth.bytes_a_key_last);
}

nlohmann::json to_json(const Measurement& m) {
  return {{"keys", m.keys},
          {"scenario", format_scenario(m.scenario)},
          {"threads", m.threads},
          {"bare_per_s", m.bare_per_s},
          {"engine_per_s", m.engine_per_s},
          {"ratio", m.ratio},
          {"ratio_least", m.ratio_least},
          {"ratio_most", m.ratio_most}};
}

nlohmann::json to_json(const Histogram& histogram, std::uint64_t stalls) {
  return {{"turns", histogram.total()},
          {"p50_us", microseconds(histogram.percentile(50))},
          {"p99_us", microseconds(histogram.percentile(99))},
          {"p99.9_us", microseconds(histogram.percentile(99.9))},
          {"p99.99_us", microseconds(histogram.percentile(99.99))},
          {"max_us", microseconds(histogram.percentile(100))},
          {"above_1ms", histogram.count_above(kStallNs)},
          {"above_1ms_running", stalls}};
}

nlohmann::json to_json(const GrowthResult& growth) {
  return {{"keys", growth.keys},
          {"threads", growth.threads},
          {"seconds", growth.seconds},
          {"growing", to_json(growth.growing_ns, growth.stalls)},
          {"steady", to_json(growth.steady_ns, growth.steady_stalls)},
          {"bytes_a_key",
           {{"mean", growth.bytes_a_key_mean},
            {"most", growth.bytes_a_key_most},
            {"last", growth.bytes_a_key_last}}}};
}

std::string run_growth(const Arguments& arguments, nlohmann::json& rows) {
  for (const std::uint32_t keys : arguments.growth_keys) {
    if (keys == 0) continue;
    for (const std::uint32_t threads : arguments.measure.threads) {
      const auto growth = measure_growth({keys, threads, arguments.measure.pin_cpu});
      if (!growth) return growth.error();
      print_growth(*growth);
      rows.push_back(to_json(*growth));
    }
  }
  return "";
}

std::string run_measurements(Arguments& arguments, nlohmann::json& rows) {
  if (arguments.measure.scenarios.empty()) return "";
  fmt::print(stderr, "{:>11} {:>10} {:>8} {:>10} {:>10} {:>7} {:>15}\n", "keys", "scenario",
             "threads", "bare/s", "engine/s", "ratio", "least..most");
  for (const std::uint32_t keys : arguments.keys) {
    arguments.measure.keys = keys;
    const auto measured = measure_engine(arguments.measure, print_measurement);
    if (!measured) return measured.error();
    for (const Measurement& m : *measured) rows.push_back(to_json(m));
  }
  return "";
}

int run(Arguments& arguments) {
  for (const std::string& text : arguments.scenarios) {
    if (text == "none") continue;
    const auto scenario = parse_scenario(text);
    if (!scenario) throw BadArguments("--scenarios: " + scenario.error());
    arguments.measure.scenarios.push_back(*scenario);
  }
  arguments.measure.seed = arguments.seed ? *arguments.seed : std::random_device{}();

  nlohmann::json rows = nlohmann::json::array();
  nlohmann::json growth = nlohmann::json::array();
  // Growing first, while the process has no memory of former tables that could be taken again.
  std::string error = run_growth(arguments, growth);
  if (error.empty()) error = run_measurements(arguments, rows);
  if (error.empty() && !arguments.json.empty()) {
    error = write_json({{"seed", arguments.measure.seed},
                        {"cpus", std::thread::hardware_concurrency()},
                        {"speed", std::move(rows)},
                        {"growth", std::move(growth)}},
                       arguments.json);
  }
  if (error.empty()) return kExitOk;
  fmt::print(stderr, "pail-bench engine: {}\n", error);
  return kExitFailed;
}

}  // namespace

std::function<int()> add_engine_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  constexpr std::uint32_t kMaxEngineKeys = 1'000'000'000;
  app.add_option("--keys", a.keys, "Keys in the tables, one or more numbers")
      ->check(CLI::Range(1u, kMaxEngineKeys))
      ->capture_default_str();
  app.add_option("--scenarios", a.scenarios,
                 "uniform, zipf:0.99, hot (one key, admitted), refused (one key); or none")
      ->capture_default_str();
  app.add_option("--threads", a.measure.threads, "Threads, one or more numbers")
      ->check(CLI::Range(1u, 256u))
      ->capture_default_str();
  app.add_option("--growth-keys", a.growth_keys, "Grow from empty to this many keys; 0: do not")
      ->check(CLI::Range(0u, kMaxEngineKeys))
      ->capture_default_str();
  app.add_option("--rounds", a.measure.rounds, "Alternating rounds; medians are reported")
      ->check(CLI::Range(1u, 1000u))
      ->capture_default_str();
  app.add_option("--seconds", a.measure.seconds, "Length of one measurement")
      ->check(CLI::Range(0.001, 600.0))
      ->capture_default_str();
  app.add_option("--pin", a.measure.pin_cpu,
                 "CPU of the first thread, the others take the next ones; -1: not pinned")
      ->check(CLI::Range(-1, 1023))
      ->capture_default_str();
  app.add_option("--seed", a.seed, "Of the random keys; drawn and reported if not given")
      ->check(protocol::fault_in_whole_number);
  app.add_option("--json", a.json,
                 "Write the result as JSON to this file; - is the standard output");
  return [arguments] { return run(*arguments); };
}

}  // namespace pail::bench
