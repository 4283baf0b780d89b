// What a decision costs without a socket: batches of 16 takes, hash of a 16-byte key included.
// Usage: engine-bench KEYS SECONDS [uniform|hot|refused] [THREADS]
//   uniform: random keys, all admitted; hot: one key, all admitted; refused: one key, all refused
// Prints millions of decisions a second, all threads together, and ns a decision of one thread.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/micro/stopwatch.hpp"
#include "server/engine/engine.hpp"

namespace pail::bench {
namespace {

using Clock = std::chrono::steady_clock;
using engine::Ticks;

constexpr std::size_t kBatch = 16;
constexpr std::size_t kBatchesPerCheck = 64;
constexpr Ticks kStart = engine::ticks_from_ns(1'000'000'000);

struct Load {
  std::uint64_t keys = 1;
  double seconds = 1;
  bool refused = false;
};

// A batch whose keys lie in one buffer, rewritten for every batch.
class Batch {
 public:
  explicit Batch(engine::Rate rate) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      requests_[i].has_inline_rate = true;
      requests_[i].inline_rate = rate;
      requests_[i].key = std::span(keys_).subspan(i * 16, 16);
    }
  }

  void set_key(std::size_t i, std::uint64_t number) {
    std::memcpy(keys_.data() + i * 16, &number, sizeof number);
  }

  std::uint64_t decide(engine::Worker& worker, Ticks now) {
    worker.decide(requests_, now, decisions_);
    std::uint64_t admitted = 0;
    for (const auto& decision : decisions_) admitted += decision.granted;
    return admitted;
  }

 private:
  std::array<std::byte, kBatch * 16> keys_{};
  std::array<engine::Request, kBatch> requests_;
  std::array<engine::Decision, kBatch> decisions_;
};

void fill(engine::Engine& engine, const Load& load, engine::Rate rate) {
  const auto worker = engine.enroll();
  Batch batch(rate);
  for (std::uint64_t key = 0; key < load.keys; key += kBatch) {
    for (std::size_t i = 0; i < kBatch; ++i) batch.set_key(i, (key + i) % load.keys);
    batch.decide(*worker, kStart);
    worker->end_turn(kStart);
  }
}

struct Result {
  std::uint64_t decisions = 0;
  std::uint64_t admitted = 0;
  double seconds = 0;
};

Result run(engine::Worker& worker, const Load& load, engine::Rate rate, std::uint64_t seed) {
  Batch batch(rate);
  Result result;
  std::uint64_t x = seed * 0x9E3779B97F4A7C15 + 1;
  const auto start = Clock::now();
  while (result.seconds < load.seconds) {
    for (std::size_t round = 0; round < kBatchesPerCheck; ++round) {
      for (std::size_t i = 0; i < kBatch; ++i) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        batch.set_key(i, ((x >> 32) * load.keys) >> 32);
      }
      result.admitted += batch.decide(worker, kStart);
    }
    worker.end_turn(kStart);
    result.decisions += kBatch * kBatchesPerCheck;
    result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return result;
}

void measure(const Load& load, std::size_t threads) {
  // One tick a token and as deep as can be, so that everything is admitted; or a token a day.
  const engine::Rate rate = load.refused ? engine::Rate{86'400'000'000'000, 1, 1}
                                         : engine::Rate{1, 16, ~std::uint32_t{0}};
  engine::Engine engine({.memory_limit_bytes = std::size_t{16} << 30});
  fill(engine, load, rate);
  std::vector<Result> results(threads);
  std::latch start(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::thread> running;
  for (std::size_t t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      const auto worker = engine.enroll();
      start.arrive_and_wait();
      results[t] = run(*worker, load, rate, t + 1);
    });
  }
  for (auto& thread : running) thread.join();
  double millions = 0;
  double admitted = 0;
  double decisions = 0;
  for (const Result& result : results) {
    millions += static_cast<double>(result.decisions) / result.seconds / 1e6;
    admitted += static_cast<double>(result.admitted);
    decisions += static_cast<double>(result.decisions);
  }
  std::printf("%llu keys, %zu threads: %.1f M/s, %.1f ns each, %.0f%% admitted\n",
              static_cast<unsigned long long>(load.keys), threads, millions,
              1e3 * static_cast<double>(threads) / millions, 100 * admitted / decisions);
}

}  // namespace
}  // namespace pail::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: engine-bench KEYS SECONDS [uniform|hot|refused] [THREADS]\n", stderr);
    return 2;
  }
  pail::bench::Load load;
  const std::string_view mode = argc > 3 ? argv[3] : "uniform";
  load.keys = mode == "uniform" ? std::strtoull(argv[1], nullptr, 0) : 1;
  load.seconds = std::strtod(argv[2], nullptr);
  load.refused = mode == "refused";
  pail::bench::measure(load, argc > 4 ? std::strtoull(argv[4], nullptr, 0) : 1);
}
