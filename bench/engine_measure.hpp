// How fast the engine decides, in process and without a socket, beside the bare table.
//
// Each thread draws keys, puts them into batches of 16, reads the clock once a batch and has the
// batch decided; the engine's time includes the keyed hash of the 16-byte keys, the table's only
// the mixing of their numbers. Engine and table take turns, round by round, so that both see the
// same machine.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "bench/key_source.hpp"
#include "server/engine/engine.hpp"

namespace pail::bench {

inline constexpr std::size_t kDecisionBatch = 16;
inline constexpr std::size_t kEngineKeyBytes = 16;

// A batch of requests for the engine: one policy, one buffer of keys.
class DecisionBatch {
 public:
  explicit DecisionBatch(std::uint32_t policy, std::uint32_t cost = 1) noexcept;
  void set_key(std::size_t i, std::uint64_t number) noexcept;
  // The number admitted.
  std::uint64_t decide(engine::Worker& worker, engine::Ticks now) noexcept;

 private:
  std::array<std::byte, kDecisionBatch * kEngineKeyBytes> keys_{};
  std::array<engine::Request, kDecisionBatch> requests_;
  std::array<engine::Decision, kDecisionBatch> decisions_;
};

// The policies of the engine that is measured: one with more budget than any run can drain, one
// that admits one request a day. A token of the first lasts 33 ms, so a key that is filled in with
// a take of kFillCost stays live for 55 minutes: an idle one would be reclaimed, and is not what is
// measured.
inline constexpr std::uint32_t kAdmitPolicy = 1;
inline constexpr std::uint32_t kRefusePolicy = 2;
inline constexpr std::uint32_t kFillCost = 100'000;
[[nodiscard]] std::vector<engine::NamedRate> measured_policies();

struct Scenario {
  Distribution distribution;
  bool is_refused = false;
};

// "uniform", "zipf:0.99", "hot" (admitted), "refused" (one hot key).
[[nodiscard]] tl::expected<Scenario, std::string> parse_scenario(std::string_view text);
[[nodiscard]] std::string format_scenario(const Scenario& scenario);

struct MeasureOptions {
  std::uint32_t keys = 1'000'000;
  std::vector<Scenario> scenarios;
  std::vector<std::uint32_t> threads = {1, 2};
  std::uint32_t rounds = 3;
  double seconds = 1;  // of one measurement
  int pin_cpu = 0;     // of the first thread; the others follow it. -1: not pinned
  std::uint64_t seed = 0;
};

// Medians over the rounds; the ratio is taken within each round.
struct Measurement {
  Scenario scenario;
  std::uint32_t keys = 0;
  std::uint32_t threads = 0;
  double bare_per_s = 0;
  double engine_per_s = 0;
  double ratio = 0;
  double ratio_least = 0;
  double ratio_most = 0;
};

using OnMeasurement = std::function<void(const Measurement&)>;

[[nodiscard]] tl::expected<std::vector<Measurement>, std::string> measure_engine(
    const MeasureOptions& options, const OnMeasurement& on_measurement);

}  // namespace pail::bench
