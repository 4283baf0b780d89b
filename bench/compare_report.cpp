// The tables of a comparison.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/compare.hpp"
#include "bench/report.hpp"

namespace pail::bench {
namespace {

std::string ratio_text(const Spread& ratio) {
  const auto text = [](double value) {
    return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
  };
  return fmt::format("{} ({}..{})", text(ratio.median), text(ratio.least), text(ratio.most));
}

std::string rate_table(const ComparePlan& plan, const CompareResult& result) {
  std::string text = "| transport | connections | pipeline |";
  std::string rule = "|---|---:|---:|";
  for (const Target& target : result.targets) {
    text += target.kind == TargetKind::pail
                ? " pail/s |"
                : fmt::format(" {}/s | pail / {} |", name(target), name(target));
    rule += target.kind == TargetKind::pail ? "---:|" : "---:|---:|";
  }
  text += "\n" + rule + "\n";
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const ComparePlan::Row& row = plan.rows[i];
    text += fmt::format("| {} | {} | {} |", name(row.transport), row.connections, row.pipeline);
    for (std::size_t k = 0; k < result.targets.size(); ++k) {
      const CompareResult::Cell& cell = result.cells[i][k];
      text += fmt::format(" {} |", format_count(cell.requests_per_s.median));
      if (k != 0) text += fmt::format(" {} |", ratio_text(cell.pail_ratio));
    }
    text += "\n";
  }
  return text;
}

std::string target_table(const CompareResult& result) {
  std::string text = "| | p50 | p99 | p99.9 | bytes a key |\n|---|---:|---:|---:|---:|\n";
  for (std::size_t k = 0; k < result.targets.size(); ++k) {
    text += fmt::format("| {} |", name(result.targets[k]));
    if (result.latencies.empty()) {
      text += " | | |";
    } else {
      const CompareResult::Latency& latency = result.latencies[k];
      for (const Spread& spread : {latency.p50_ns, latency.p99_ns, latency.p999_ns}) {
        text += fmt::format(" {} ({}..{}){} |", format_ns(spread.median), format_ns(spread.least),
                            format_ns(spread.most), latency.is_generator_late ? " *" : "");
      }
    }
    const double bytes = result.bytes_a_key[k];
    text += bytes > 0 ? fmt::format(" {:.0f} |\n", bytes) : std::string(" - |\n");
  }
  return text;
}

nlohmann::json spread_json(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

}  // namespace

std::string compare_text(const Arena& arena, const ComparePlan& plan, const CompareResult& result) {
  std::string text = fmt::format(
      "Every server with one thread on CPU {}, the generator on CPU {}; {} random 16-byte keys, "
      "limit 100/s burst 100; {} for all; {} rounds of {} a run, in turns. Rates are medians; a "
      "ratio is taken within a round: median (least..most).\n\n",
      arena.server_cpu, arena.bench_cpu, arena.keys, arena.congestion, plan.rounds,
      format_ns(static_cast<double>(plan.run_ns)));
  text += rate_table(plan, result);
  const ComparePlan::Row& row = plan.rows.front();
  text +=
      fmt::format("\nBytes a key: growth of the process from empty to {} keys.", plan.memory_keys);
  if (!result.latencies.empty()) {
    text += fmt::format(
        " Latency: open loop (poisson), the same {}/s for all, which is 80 % of what the slowest "
        "rival can do; {}, {} connections.",
        format_count(result.equal_load_per_s), name(row.transport), row.connections);
  }
  text += "\n\n" + target_table(result);
  for (const CompareResult::Latency& latency : result.latencies) {
    if (!latency.is_generator_late) continue;
    text += "\n\\* in some round the generator itself was late: partly its own latency\n";
    break;
  }
  for (const std::string& note : result.notes) text += fmt::format("\nNote: {}\n", note);
  return text;
}

nlohmann::json compare_json(const Arena& arena, const ComparePlan& plan,
                            const CompareResult& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    nlohmann::json targets = nlohmann::json::object();
    for (std::size_t k = 0; k < result.targets.size(); ++k) {
      const CompareResult::Cell& cell = result.cells[i][k];
      targets[std::string(name(result.targets[k]))] = {
          {"requests_per_s", spread_json(cell.requests_per_s)},
          {"pail_ratio", spread_json(cell.pail_ratio)}};
    }
    rows.push_back({{"transport", std::string(name(plan.rows[i].transport))},
                    {"connections", plan.rows[i].connections},
                    {"pipeline", plan.rows[i].pipeline},
                    {"targets", std::move(targets)}});
  }
  nlohmann::json of_targets = nlohmann::json::object();
  for (std::size_t k = 0; k < result.targets.size(); ++k) {
    nlohmann::json one = {{"bytes_a_key", result.bytes_a_key[k]}};
    if (!result.latencies.empty()) {
      const CompareResult::Latency& latency = result.latencies[k];
      one["latency_ns"] = {{"p50", spread_json(latency.p50_ns)},
                           {"p99", spread_json(latency.p99_ns)},
                           {"p99.9", spread_json(latency.p999_ns)},
                           {"is_generator_late", latency.is_generator_late}};
    }
    of_targets[std::string(name(result.targets[k]))] = std::move(one);
  }
  return {{"congestion", arena.congestion},
          {"keys", arena.keys},
          {"rounds", plan.rounds},
          {"run_s", static_cast<double>(plan.run_ns) / 1e9},
          {"memory_keys", plan.memory_keys},
          {"equal_load_per_s", result.equal_load_per_s},
          {"rows", std::move(rows)},
          {"targets", std::move(of_targets)},
          {"notes", result.notes}};
}

}  // namespace pail::bench
