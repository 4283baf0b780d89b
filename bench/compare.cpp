#include "bench/compare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/load_run.hpp"
#include "bench/target_setup.hpp"

namespace pail::bench {
namespace {

constexpr double kEqualLoadShare = 0.8;
constexpr std::uint32_t kFillPipeline = 64;

class Comparison {
 public:
  Comparison(const Arena& arena, const ComparePlan& plan,
             const std::function<void(const std::string&)>& on_step,
             const volatile std::sig_atomic_t& stop)
      : arena_(arena), plan_(plan), on_step_(on_step), stop_(stop) {}

  [[nodiscard]] tl::expected<CompareResult, std::string> run() {
    for (const auto step : {&Comparison::start_all, &Comparison::measure_rates,
                            &Comparison::measure_latencies, &Comparison::measure_memory}) {
      if (auto done = (this->*step)(); !done) return tl::unexpected(done.error());
    }
    return std::move(result_);
  }

 private:
  using Done = tl::expected<void, std::string>;

  [[nodiscard]] Done start_all() {
    constexpr Target kAll[] = {{TargetKind::pail, {}},
                               {TargetKind::echo, {}},
                               {TargetKind::redis, RedisMethod::throttle, true},
                               {TargetKind::redis, RedisMethod::lua},
                               {TargetKind::redis, RedisMethod::incr},
                               {TargetKind::redis, RedisMethod::throttle},
                               {TargetKind::memcached, {}}};
    for (const Target& target : kAll) {
      on_step_(fmt::format("starting {}", name(target)));
      if (const auto package = missing_package(target); !package.empty()) {
        result_.notes.push_back(
            fmt::format("{}: skipped, not installed (apt-get install {})", name(target), package));
        continue;
      }
      auto contestant = Contestant::start(arena_, target, fmt::format("{}", contestants_.size()));
      if (!contestant) return tl::unexpected(contestant.error());
      if (auto prepared = prepare(*contestant); !prepared) {
        if (target.method != RedisMethod::throttle || target.is_own) return prepared;
        result_.notes.push_back(
            fmt::format("{}: skipped, this server does not know CL.THROTTLE", name(target)));
        continue;
      }
      contestants_.push_back(std::move(*contestant));
      result_.targets.push_back(target);
    }
    return {};
  }

  [[nodiscard]] Done prepare(Contestant& contestant) {
    for (const Transport transport : {Transport::tcp, Transport::unix_socket}) {
      if (auto prepared = contestant.prepare(transport); !prepared) return prepared;
    }
    return {};
  }

  // One run; every request must have been decided.
  [[nodiscard]] tl::expected<LoadResult, std::string> load(const LoadOptions& options) {
    LoadHooks hooks;
    hooks.stop = &stop_;
    auto result = run_load(options, hooks);
    if (stop_ != 0) return tl::unexpected(std::string("interrupted"));
    if (!result) {
      return tl::unexpected(fmt::format("{}: {}", name(options.target), result.error()));
    }
    if (result->total.errors() != 0) {
      return tl::unexpected(fmt::format("{}: {} requests were not decided", name(options.target),
                                        result->total.errors()));
    }
    return result;
  }

  [[nodiscard]] LoadOptions options_for(const Contestant& contestant, const ComparePlan::Row& row,
                                        std::uint32_t round) const {
    LoadOptions options = contestant.options(row.transport);
    options.connections = row.connections;
    options.pipeline = row.pipeline;
    options.duration_ns = plan_.run_ns;
    options.warmup_ns = plan_.warmup_ns;
    options.seed = round + 1;
    return options;
  }

  [[nodiscard]] Done measure_rates() {
    for (const ComparePlan::Row& row : plan_.rows) {
      std::vector<std::vector<double>> rates(contestants_.size());
      for (std::uint32_t round = 0; round < plan_.rounds; ++round) {
        on_step_(fmt::format("{}, {} connections, pipeline {}: round {} of {}", name(row.transport),
                             row.connections, row.pipeline, round + 1, plan_.rounds));
        for (std::size_t i = 0; i < contestants_.size(); ++i) {
          const auto run = load(options_for(contestants_[i], row, round));
          if (!run) return tl::unexpected(run.error());
          rates[i].push_back(run->requests_per_s);
        }
      }
      std::vector<CompareResult::Cell> cells;
      for (const auto& of_one : rates) {
        std::vector<double> ratios;
        for (std::size_t round = 0; round < of_one.size(); ++round) {
          ratios.push_back(of_one[round] > 0 ? rates.front()[round] / of_one[round] : 0);
        }
        cells.push_back({spread_of(of_one), spread_of(ratios)});
      }
      result_.cells.push_back(std::move(cells));
    }
    return {};
  }

  // The rate of the slowest rival, one request at a time on 50 connections or what is nearest.
  [[nodiscard]] double slowest_rival_per_s() const {
    double slowest = 0;
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      if (result_.targets[i].is_native() || result_.targets[i].is_own) continue;
      const double rate = result_.cells.front()[i].requests_per_s.median;
      if (slowest == 0 || rate < slowest) slowest = rate;
    }
    return slowest;
  }

  [[nodiscard]] Done measure_latencies() {
    result_.equal_load_per_s = slowest_rival_per_s() * kEqualLoadShare;
    if (result_.equal_load_per_s <= 0) return {};
    std::vector<std::vector<double>> p50(contestants_.size()), p99 = p50, p999 = p50;
    result_.latencies.resize(contestants_.size());
    for (std::uint32_t round = 0; round < plan_.rounds; ++round) {
      on_step_(fmt::format("latency at {:.0f}/s: round {} of {}", result_.equal_load_per_s,
                           round + 1, plan_.rounds));
      for (std::size_t i = 0; i < contestants_.size(); ++i) {
        LoadOptions options = options_for(contestants_[i], plan_.rows.front(), round);
        options.arrival = {Arrival::Kind::poisson, result_.equal_load_per_s};
        options.duration_ns = plan_.open_loop_ns;
        const auto run = load(options);
        if (!run) return tl::unexpected(run.error());
        const auto at = [&run](double percent) {
          return static_cast<double>(run->latencies_ns.percentile(percent));
        };
        p50[i].push_back(at(50));
        p99[i].push_back(at(99));
        p999[i].push_back(at(99.9));
        if (run->is_generator_late()) result_.latencies[i].is_generator_late = true;
      }
    }
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
      result_.latencies[i].p50_ns = spread_of(p50[i]);
      result_.latencies[i].p99_ns = spread_of(p99[i]);
      result_.latencies[i].p999_ns = spread_of(p999[i]);
    }
    return {};
  }

  // A fresh server is given every key once; what it has grown by is the keys'.
  [[nodiscard]] Done measure_memory() {
    contestants_.clear();
    for (std::size_t i = 0; i < result_.targets.size(); ++i) {
      const Target& target = result_.targets[i];
      result_.bytes_a_key.push_back(0);
      if (target.kind == TargetKind::echo) continue;
      on_step_(fmt::format("memory of {}", name(target)));
      Arena arena = arena_;
      arena.keys = plan_.memory_keys;
      auto contestant = Contestant::start(arena, target, fmt::format("memory-{}", i));
      if (!contestant) return tl::unexpected(contestant.error());
      const std::uint64_t before = contestant->resident_bytes(Transport::tcp);
      if (auto prepared = contestant->prepare(Transport::tcp); !prepared) return prepared;
      LoadOptions options = contestant->options(Transport::tcp);
      options.distribution.kind = Distribution::Kind::sequential;
      options.requests = plan_.memory_keys;
      options.pipeline = kFillPipeline;
      options.warmup_ns = 0;
      // A limit that nobody has gone back under by the time the memory is looked at.
      options.limit = {3'600'000'000'000, 100, 100};
      options.policy.clear();
      const auto run = load(options);
      if (!run) return tl::unexpected(run.error());
      const std::uint64_t after = contestant->resident_bytes(Transport::tcp);
      result_.bytes_a_key.back() = static_cast<double>(after - std::min(before, after)) /
                                   static_cast<double>(plan_.memory_keys);
    }
    return {};
  }

  const Arena& arena_;
  const ComparePlan& plan_;
  const std::function<void(const std::string&)>& on_step_;
  const volatile std::sig_atomic_t& stop_;
  std::vector<Contestant> contestants_;
  CompareResult result_;
};

}  // namespace

ComparePlan quick_plan() {
  ComparePlan plan;
  plan.rows = {{Transport::tcp, 50, 1},         {Transport::tcp, 50, 16},
               {Transport::tcp, 50, 64},        {Transport::tcp, 50, 256},
               {Transport::tcp, 1, 1},          {Transport::tcp, 1, 64},
               {Transport::unix_socket, 50, 1}, {Transport::unix_socket, 50, 64}};
  plan.rounds = 3;
  plan.run_ns = 400'000'000;
  plan.warmup_ns = 100'000'000;
  plan.open_loop_ns = 1'000'000'000;
  return plan;
}

ComparePlan full_plan() {
  ComparePlan plan;
  for (const Transport transport : {Transport::tcp, Transport::unix_socket}) {
    for (const std::uint32_t connections : {50u, 1u}) {
      for (const std::uint32_t pipeline : {1u, 16u, 64u, 256u}) {
        plan.rows.push_back({transport, connections, pipeline});
      }
    }
  }
  return plan;
}

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

tl::expected<CompareResult, std::string> compare(
    const Arena& arena, const ComparePlan& plan,
    const std::function<void(const std::string&)>& on_step,
    const volatile std::sig_atomic_t& stop) {
  return Comparison(arena, plan, on_step, stop).run();
}

}  // namespace pail::bench
