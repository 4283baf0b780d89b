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

// How the open loop kept its promise, and whether its latencies can be trusted.
std::string open_loop_rows(const LoadOptions& options, const LoadResult& result) {
  const auto lag = [&result](double percent) {
    return format_ns(static_cast<double>(result.lag_ns.percentile(percent)));
  };
  std::string text = fmt::format(
      "  {:<12} {} requests due ({}), {}/s achieved; latency is from when a request was due\n",
      "offered", result.offered, format_arrival(options.arrival),
      format_count(result.requests_per_s));
  text += fmt::format("  {:<12} p50 {}  p99 {}  max {}: how late requests left this program\n",
                      "own lag", lag(50), lag(99), lag(100));
  if (result.is_generator_late()) {
    text += fmt::format(
        "  {:<12} the generator itself is the limit: these latencies are partly its own. More "
        "--threads on free CPUs, a larger --pipeline or a lower --arrival\n",
        "WARNING");
  }
  return text;
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

nlohmann::json options_json(const LoadOptions& options) {
  nlohmann::json limit;
  if (options.policy.empty()) {
    limit = {{"rate", options.rate_text}, {"burst", options.limit.burst}};
  } else {
    limit = {{"policy", options.policy}};
  }
  return {{"target", name(options.target)},
          {"server", options.server.text},
          {"connections", options.connections},
          {"threads", options.threads},
          {"pipeline", options.pipeline},
          {"keys", options.keys},
          {"distribution", format_distribution(options.distribution)},
          {"key_size_bytes", options.key_size_bytes},
          {"limit", std::move(limit)},
          {"cost", options.cost},
          {"mix", format_mix(options.mix)},
          {"arrival", format_arrival(options.arrival)},
          {"ramp_s", static_cast<double>(options.ramp_ns) / 1e9},
          {"tcp_congestion", options.congestion},
          {"warmup_s", static_cast<double>(options.warmup_ns) / 1e9},
          {"pin", options.pin_cpu},
          {"seed", options.seed}};
}

}  // namespace

std::string workload_text(const LoadOptions& options) {
  const std::string limit =
      options.policy.empty()
          ? fmt::format("inline {} burst {}", options.rate_text, options.limit.burst)
          : fmt::format("policy {}", options.policy);
  if (options.trace) {
    return fmt::format("trace of {} requests and {} keys, {}", options.trace->entries.size(),
                       options.trace->keys.size(), limit);
  }
  return fmt::format("{} keys of {} bytes, {}, {}, cost {}, {}", options.keys,
                     options.key_size_bytes, format_distribution(options.distribution), limit,
                     options.cost, format_mix(options.mix));
}

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

std::string result_table(const LoadOptions& options, const LoadResult& result) {
  std::string text;
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<12} {}\n", name, value);
  };
  const StatusCounts& measured = result.measured;
  text += fmt::format("{} at {}: {} connections, {} thread{}, pipeline {}\n", name(options.target),
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
  const bool is_open_loop = options.arrival.kind != Arrival::Kind::closed;
  row(is_open_loop || options.pipeline == 1 ? "latency" : "of a batch", latency);
  if (is_open_loop) text += open_loop_rows(options, result);
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

nlohmann::json result_json(const LoadOptions& options, const LoadResult& result) {
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
  if (options.arrival.kind != Arrival::Kind::closed) {
    measured["offered"] = result.offered;
    measured["unanswered"] = result.unanswered;
    measured["lag_us"] = {{"p50", microseconds(result.lag_ns.percentile(50))},
                          {"p99", microseconds(result.lag_ns.percentile(99))},
                          {"max", microseconds(result.lag_ns.percentile(100))}};
    measured["is_generator_late"] = result.is_generator_late();
  }
  nlohmann::json total = counts_json(result.total);
  total["sent"] = result.sent;
  return {
      {"options", options_json(options)},
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
