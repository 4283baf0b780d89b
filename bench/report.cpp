#include "bench/report.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "protocol/limit_text.hpp"

namespace pail::bench {
namespace {

constexpr std::array kPercentiles = {50.0, 90.0, 99.0, 99.9, 100.0};

double microseconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e3;
}

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

double percent_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole) * 100;
}

std::string workload_text(const LoadOptions& options) {
  const std::string limit =
      options.policy.empty()
          ? fmt::format("inline {} burst {}", options.rate_text, options.limit.burst)
          : fmt::format("policy {}", options.policy);
  return fmt::format("{} keys of {} bytes, {}, {}, cost {}", options.keys, options.key_size_bytes,
                     format_distribution(options.distribution), limit, options.cost);
}

nlohmann::json counts_json(const StatusCounts& counts) {
  nlohmann::json by_status = nlohmann::json::object();
  for (std::size_t i = 0; i < counts.of.size(); ++i) {
    by_status[std::string(protocol::name(static_cast<protocol::Status>(i)))] = counts.of[i];
  }
  return {{"requests", counts.answered()},
          {"admitted", counts.admitted()},
          {"refused", counts.refused()},
          {"errors", counts.errors()},
          {"by_status", std::move(by_status)}};
}

nlohmann::json options_json(const std::string& target, const LoadOptions& options) {
  nlohmann::json limit;
  if (options.policy.empty()) {
    limit = {{"rate", options.rate_text}, {"burst", options.limit.burst}};
  } else {
    limit = {{"policy", options.policy}};
  }
  return {{"target", target},
          {"server", options.server.text},
          {"connections", options.connections},
          {"threads", options.threads},
          {"pipeline", options.pipeline},
          {"keys", options.keys},
          {"distribution", format_distribution(options.distribution)},
          {"key_size_bytes", options.key_size_bytes},
          {"limit", std::move(limit)},
          {"cost", options.cost},
          {"tcp_congestion", options.congestion},
          {"warmup_s", static_cast<double>(options.warmup_ns) / 1e9},
          {"pin", options.pin_cpu},
          {"seed", options.seed}};
}

}  // namespace

std::string format_count(double count) {
  if (count >= 1e6) return three_digits(count / 1e6) + " M";
  if (count >= 1e4) return three_digits(count / 1e3) + " k";
  return fmt::format("{:.0f}", count);
}

std::string format_ns(double ns) {
  if (ns >= 1e9) return three_digits(ns / 1e9) + " s";
  if (ns >= 1e6) return three_digits(ns / 1e6) + " ms";
  if (ns >= 1e3) return three_digits(ns / 1e3) + " us";
  return fmt::format("{:.0f} ns", ns);
}

std::string live_line(const LiveView& view) {
  if (!view.is_measuring) {
    return fmt::format("{:6.1f} s  warming up, {}/s", view.elapsed_s,
                       format_count(view.requests_per_s));
  }
  const auto at = [&view](double percent) {
    return format_ns(static_cast<double>(view.latencies_ns.percentile(percent)));
  };
  return fmt::format("{:6.1f} s  {:>7}/s  p50 {:>7}  p99 {:>7}  refused {:5.1f} %", view.elapsed_s,
                     format_count(view.requests_per_s), at(50), at(99), view.refused_percent);
}

std::string result_table(const std::string& target, const LoadOptions& options,
                         const LoadResult& result) {
  std::string text;
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  const StatusCounts& measured = result.measured;
  text += fmt::format("{} at {}: {} connections, {} thread{}, pipeline {}\n", target,
                      options.server.text, options.connections, options.threads,
                      options.threads == 1 ? "" : "s", options.pipeline);
  row("workload", workload_text(options));
  row("measured", fmt::format("{} requests in {:.2f} s", measured.answered(), result.seconds));
  row("throughput", fmt::format("{}/s", format_count(result.requests_per_s)));
  std::string latency;
  for (const double percent : kPercentiles) {
    latency += fmt::format("{}{} {}", latency.empty() ? "" : "  ",
                           percent == 100.0 ? "max" : fmt::format("p{}", percent),
                           format_ns(static_cast<double>(result.latencies_ns.percentile(percent))));
  }
  row(options.pipeline == 1 ? "latency" : "of a batch", latency);
  const auto share = [&measured](std::uint64_t count) {
    return fmt::format("{} ({:.1f} %)", count, percent_of(count, measured.answered()));
  };
  row("admitted", share(measured.admitted()));
  row("refused", share(measured.refused()));
  row("errors", share(measured.errors()));
  row("whole run",
      fmt::format("{} sent, {} admitted, {} refused, {} errors; every reply checked", result.sent,
                  result.total.admitted(), result.total.refused(), result.total.errors()));
  for (std::size_t i = 0; i < result.total.of.size(); ++i) {
    const auto status = static_cast<protocol::Status>(i);
    const bool is_plain = status == protocol::Status::ok || status == protocol::Status::denied;
    if (result.total.of[i] != 0 && !is_plain) {
      row(protocol::name(status), fmt::format("{} in the whole run", result.total.of[i]));
    }
  }
  return text;
}

nlohmann::json result_json(const std::string& target, const LoadOptions& options,
                           const LoadResult& result) {
  nlohmann::json latency = nlohmann::json::object();
  for (const double percent : kPercentiles) {
    latency[percent == 100.0 ? "max" : fmt::format("p{}", percent)] =
        microseconds(result.latencies_ns.percentile(percent));
  }
  nlohmann::json measured = counts_json(result.measured);
  measured["seconds"] = result.seconds;
  measured["requests_per_s"] = result.requests_per_s;
  measured["batches"] = result.latencies_ns.total();
  measured["batch_latency_us"] = std::move(latency);
  nlohmann::json total = counts_json(result.total);
  total["sent"] = result.sent;
  return {
      {"options", options_json(target, options)},
      {"measured", std::move(measured)},
      {"total", std::move(total)},
      {"generator",
       {{"cpu_s", result.generator_cpu_s}, {"completions_per_turn", result.completions_per_turn}}}};
}

std::string write_json(const nlohmann::json& json, const std::string& path) {
  const std::string text = json.dump(2) + "\n";
  if (path == "-") {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    return is_written && std::fflush(stdout) == 0 ? "" : "cannot write to the standard output";
  }
  std::ofstream file(path);
  file << text;
  file.close();
  return file ? "" : fmt::format("cannot write {}: {}", path, std::strerror(errno));
}

}  // namespace pail::bench
