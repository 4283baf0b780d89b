// A comparison: the same work for Pail, its ceiling and its rivals, in turns within the same
// minutes.
#pragma once

#include <csignal>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/contestant.hpp"

namespace pail::bench {

struct ComparePlan {
  struct Row {
    Transport transport;
    std::uint32_t connections;
    std::uint32_t pipeline;
  };
  std::vector<Row> rows;
  std::uint32_t rounds = 5;
  std::uint64_t run_ns = 1'000'000'000;
  std::uint64_t warmup_ns = 200'000'000;
  std::uint64_t open_loop_ns = 5'000'000'000;
  std::uint32_t memory_keys = 1'000'000;
};
[[nodiscard]] ComparePlan quick_plan();  // within three minutes on two cores
[[nodiscard]] ComparePlan full_plan();

// Median, least and most.
struct Spread {
  double median = 0, least = 0, most = 0;
};
[[nodiscard]] Spread spread_of(std::vector<double> values);

struct CompareResult {
  struct Cell {
    Spread requests_per_s;
    Spread pail_ratio;  // Pail's rate over this one's, each taken within a round
  };
  struct Latency {
    Spread p50_ns, p99_ns, p999_ns;
    bool is_generator_late = false;
  };
  std::vector<Target> targets;           // the first is Pail
  std::vector<std::vector<Cell>> cells;  // by row of the plan, by target
  double equal_load_per_s = 0;           // 80 % of what the slowest rival can do; 0: no rival
  std::vector<Latency> latencies;        // at that load, by target
  std::vector<double> bytes_a_key;       // by target; 0 for the echo, which keeps none
  std::vector<std::string> notes;        // what was left out, and why
};

// `on_step` learns what is being done. The error is for the user.
[[nodiscard]] tl::expected<CompareResult, std::string> compare(
    const Arena& arena, const ComparePlan& plan,
    const std::function<void(const std::string&)>& on_step, const volatile std::sig_atomic_t& stop);

// As Markdown, which reads well as it is.
[[nodiscard]] std::string compare_text(const Arena& arena, const ComparePlan& plan,
                                       const CompareResult& result);
[[nodiscard]] nlohmann::json compare_json(const Arena& arena, const ComparePlan& plan,
                                          const CompareResult& result);

}  // namespace pail::bench
