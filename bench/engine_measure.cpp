#include "bench/engine_measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <latch>
#include <memory>
#include <span>
#include <thread>

#include "bench/bare_table.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

using Clock = std::chrono::steady_clock;
using engine::Ticks;

constexpr int kBatchesPerTurn = 16;  // between two looks at the time

std::uint64_t ns_since(Clock::time_point start) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

// Both deciders: take(keys, ns) takes a token of each key and returns how many were admitted;
// end_turn(ns) follows every few batches. One a thread.
class EngineDecider {
 public:
  EngineDecider(engine::Engine& engine, const Scenario& scenario)
      : worker_(engine.enroll()), batch_(scenario.is_refused ? kRefusePolicy : kAdmitPolicy) {}

  std::uint64_t take(const std::array<std::uint32_t, kDecisionBatch>& keys,
                     std::uint64_t ns) noexcept {
    for (std::size_t i = 0; i < kDecisionBatch; ++i) batch_.set_key(i, keys[i]);
    return batch_.decide(*worker_, engine::ticks_from_ns(ns));
  }
  void end_turn(std::uint64_t ns) noexcept { worker_->end_turn(engine::ticks_from_ns(ns)); }

 private:
  std::unique_ptr<engine::Worker> worker_;
  DecisionBatch batch_;
};

class BareDecider {
 public:
  BareDecider(BareTable& table, const Scenario& scenario)
      : table_(table),
        limit_(scenario.is_refused ? BareTable::Limit{kDay, kDay}
                                   : BareTable::Limit{1, std::uint64_t{1} << 61}) {}

  std::uint64_t take(const std::array<std::uint32_t, kDecisionBatch>& keys,
                     std::uint64_t ns) noexcept {
    return table_.take(keys, ns * engine::kTicksPerNs, limit_);
  }
  void end_turn(std::uint64_t) noexcept {}

 private:
  static constexpr std::uint64_t kDay = std::uint64_t{86'400'000'000'000} * engine::kTicksPerNs;
  BareTable& table_;
  BareTable::Limit limit_;
};

struct Outcome {
  double per_s = 0;
  std::uint64_t decided = 0;
  std::uint64_t admitted = 0;
};

template <class Decider>
Outcome run_thread(Decider& decider, KeySource& keys, Clock::time_point epoch, double seconds) {
  Outcome outcome;
  std::array<std::uint32_t, kDecisionBatch> batch;
  const std::uint64_t start = ns_since(epoch);
  const std::uint64_t end = start + static_cast<std::uint64_t>(seconds * 1e9);
  std::uint64_t now = start;
  while (now < end) {
    for (int turn = 0; turn < kBatchesPerTurn; ++turn) {
      now = ns_since(epoch);
      for (auto& key : batch) key = keys.next();
      outcome.admitted += decider.take(batch, now);
    }
    decider.end_turn(now);
    outcome.decided += kDecisionBatch * kBatchesPerTurn;
  }
  outcome.per_s =
      static_cast<double>(outcome.decided) / static_cast<double>(ns_since(epoch) - start) * 1e9;
  return outcome;
}

// All threads at once; their speeds together.
template <class Decider, class Table>
Outcome run_threads(Table& table, const Scenario& scenario, std::vector<KeySource>& keys,
                    std::uint32_t threads, const MeasureOptions& options, Clock::time_point epoch) {
  std::vector<Outcome> outcomes(threads);
  std::latch ready(threads);
  std::vector<std::thread> running;
  for (std::uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      if (options.pin_cpu >= 0) {
        // A machine with fewer cores than threads measures what it has.
        (void)pin_thread(options.pin_cpu + static_cast<int>(i));
      }
      Decider decider(table, scenario);
      ready.arrive_and_wait();
      outcomes[i] = run_thread(decider, keys[i], epoch, options.seconds);
    });
  }
  for (auto& thread : running) thread.join();
  Outcome sum;
  for (const Outcome& outcome : outcomes) {
    sum.per_s += outcome.per_s;
    sum.decided += outcome.decided;
    sum.admitted += outcome.admitted;
  }
  return sum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A measurement of something else than what it says is worse than none.
std::string fault_in(const Outcome& outcome, const Scenario& scenario, std::string_view who) {
  const std::uint64_t refused = outcome.decided - outcome.admitted;
  if (!scenario.is_refused && refused != 0) {
    return fmt::format("{} refused {} of {} takes that should all be admitted", who, refused,
                       outcome.decided);
  }
  if (scenario.is_refused && outcome.admitted > 1) {
    return fmt::format("{} admitted {} takes under a limit of 1 a day", who, outcome.admitted);
  }
  return "";
}

void fill(engine::Engine& engine, std::uint32_t keys, std::uint64_t ns) {
  const auto worker = engine.enroll();
  DecisionBatch batch(kAdmitPolicy, kFillCost);
  for (std::uint64_t key = 0; key < keys; key += kDecisionBatch) {
    for (std::size_t i = 0; i < kDecisionBatch; ++i) batch.set_key(i, (key + i) % keys);
    batch.decide(*worker, engine::ticks_from_ns(ns));
    worker->end_turn(engine::ticks_from_ns(ns));
  }
}

}  // namespace

DecisionBatch::DecisionBatch(std::uint32_t policy, std::uint32_t cost) noexcept {
  for (std::size_t i = 0; i < kDecisionBatch; ++i) {
    requests_[i].policy = policy;
    requests_[i].cost = cost;
    requests_[i].key = std::span(keys_).subspan(i * kEngineKeyBytes, kEngineKeyBytes);
  }
}

void DecisionBatch::set_key(std::size_t i, std::uint64_t number) noexcept {
  std::memcpy(keys_.data() + i * kEngineKeyBytes, &number, sizeof number);
}

std::uint64_t DecisionBatch::decide(engine::Worker& worker, Ticks now) noexcept {
  worker.decide(requests_, now, decisions_);
  std::uint64_t admitted = 0;
  for (const auto& decision : decisions_) {
    if (decision.verdict == engine::Verdict::admitted) ++admitted;
  }
  return admitted;
}

std::vector<engine::NamedRate> measured_policies() {
  return {{"admit", kAdmitPolicy, {33'000'000, 1, ~std::uint32_t{0}}},
          {"refuse", kRefusePolicy, {86'400'000'000'000, 1, 1}}};
}

tl::expected<Scenario, std::string> parse_scenario(std::string_view text) {
  const bool is_refused = text == "refused";
  const auto distribution = parse_distribution(is_refused ? "hot" : text);
  if (distribution) return Scenario{*distribution, is_refused};
  return tl::unexpected(distribution.error() + ", or refused (one hot key, all refused)");
}

std::string format_scenario(const Scenario& scenario) {
  return scenario.is_refused ? "refused" : format_distribution(scenario.distribution);
}

tl::expected<std::vector<Measurement>, std::string> measure_engine(
    const MeasureOptions& options, const OnMeasurement& on_measurement) {
  const auto epoch = Clock::now() - std::chrono::seconds(1);
  auto bare = BareTable::make(options.keys);
  if (!bare) return tl::unexpected(bare.error());
  engine::Options engine_options;
  engine_options.memory_limit_bytes = (std::size_t{64} << 20) + std::size_t{options.keys} * 64;
  engine_options.policies = measured_policies();
  engine::Engine engine(engine_options);
  fill(engine, options.keys, ns_since(epoch));

  std::vector<Measurement> measurements;
  for (const Scenario& scenario : options.scenarios) {
    for (const std::uint32_t threads : options.threads) {
      std::vector<KeySource> keys;
      for (std::uint32_t i = 0; i < threads; ++i) {
        keys.emplace_back(scenario.distribution, options.keys, derive_seed(options.seed, i));
      }
      std::vector<double> bare_speeds, engine_speeds, ratios;
      for (std::uint32_t round = 0; round < options.rounds; ++round) {
        bare->reset();
        const Outcome by_bare =
            run_threads<BareDecider>(*bare, scenario, keys, threads, options, epoch);
        const Outcome by_engine =
            run_threads<EngineDecider>(engine, scenario, keys, threads, options, epoch);
        for (const std::string& fault : {fault_in(by_bare, scenario, "the bare table"),
                                         fault_in(by_engine, scenario, "the engine")}) {
          if (!fault.empty()) return tl::unexpected(fault);
        }
        bare_speeds.push_back(by_bare.per_s);
        engine_speeds.push_back(by_engine.per_s);
        ratios.push_back(by_engine.per_s / by_bare.per_s);
      }
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      measurements.push_back({scenario, options.keys, threads, median(bare_speeds),
                              median(engine_speeds), median(ratios), *least, *most});
      on_measurement(measurements.back());
    }
  }
  return measurements;
}

}  // namespace pail::bench
