#include "bench/engine_growth.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "bench/engine_measure.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

constexpr std::uint32_t kSamples = 64;
constexpr std::uint32_t kFirstSample = 1'000'000;
constexpr int kTurnsPerBlock = 64;

std::uint64_t read_clock(clockid_t clock) noexcept {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// The turns of one thread. To tell our own stalls from those of a busy machine without a system
// call a turn, a block of turns is compared with the time that the thread was running in it.
class TurnTimer {
 public:
  void begin_block() noexcept {
    block_began_ns_ = read_clock(CLOCK_MONOTONIC);
    block_cpu_ns_ = read_clock(CLOCK_THREAD_CPUTIME_ID);
    turn_began_ns_ = block_began_ns_;
    longest_ns_ = 0;
  }
  [[nodiscard]] std::uint64_t turn_began_ns() const noexcept { return turn_began_ns_; }
  void end_turn() noexcept {
    const std::uint64_t now = read_clock(CLOCK_MONOTONIC);
    const std::uint64_t turn_ns = now - turn_began_ns_;
    turns_ns_.record(turn_ns);
    longest_ns_ = std::max(longest_ns_, turn_ns);
    turn_began_ns_ = now;
  }
  void end_block() noexcept {
    if (longest_ns_ <= kStallNs) return;
    const std::uint64_t ran_ns = read_clock(CLOCK_THREAD_CPUTIME_ID) - block_cpu_ns_;
    if (ran_ns > kStallNs) ++stalls_;  // The rest of a block takes a tenth of that.
  }

  [[nodiscard]] const Histogram& turns_ns() const noexcept { return turns_ns_; }
  [[nodiscard]] std::uint64_t stalls() const noexcept { return stalls_; }

 private:
  Histogram turns_ns_;
  std::uint64_t stalls_ = 0;
  std::uint64_t block_began_ns_ = 0;
  std::uint64_t block_cpu_ns_ = 0;
  std::uint64_t turn_began_ns_ = 0;
  std::uint64_t longest_ns_ = 0;
};

// Takes a token of each key of [first, last).
bool take_range(engine::Worker& worker, DecisionBatch& batch, std::uint64_t first,
                std::uint64_t last, TurnTimer& timer, std::atomic<std::uint64_t>& done) {
  for (std::uint64_t key = first; key < last;) {
    timer.begin_block();
    for (int turn = 0; turn < kTurnsPerBlock && key < last; ++turn) {
      const std::uint64_t count = std::min<std::uint64_t>(kDecisionBatch, last - key);
      for (std::size_t i = 0; i < kDecisionBatch; ++i) batch.set_key(i, key + i % count);
      const engine::Ticks now = engine::ticks_from_ns(timer.turn_began_ns());
      if (batch.decide(worker, now) != kDecisionBatch) return false;
      worker.end_turn(now);
      timer.end_turn();
      key += count;
      done.fetch_add(count, std::memory_order_relaxed);
    }
    timer.end_block();
  }
  return true;
}

// Follows the memory of the process while `done` counts up.
class MemoryWatch {
 public:
  explicit MemoryWatch(std::uint64_t keys)
      : before_(resident_bytes()),
        step_(std::max<std::uint64_t>(keys / kSamples, 1)),
        next_(std::min<std::uint64_t>(kFirstSample, keys / 2)) {}

  void look(std::uint64_t done) {
    if (done == 0 || done < next_) return;
    const std::uint64_t now = resident_bytes();
    const auto grown = now > before_ ? static_cast<double>(now - before_) : 0.0;
    last_ = grown / static_cast<double>(done);
    most_ = std::max(most_, last_);
    sum_ += last_;
    ++samples_;
    next_ = done + step_;
  }
  void report(GrowthResult& result) const {
    result.bytes_a_key_mean = samples_ == 0 ? 0 : sum_ / samples_;
    result.bytes_a_key_most = most_;
    result.bytes_a_key_last = last_;
  }

 private:
  std::uint64_t before_;
  std::uint64_t step_;
  std::uint64_t next_;
  double last_ = 0, most_ = 0, sum_ = 0;
  int samples_ = 0;
};

}  // namespace

std::uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long size = 0;
  unsigned long long resident = 0;
  const int read = std::fscanf(file, "%llu %llu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<unsigned long long>(sysconf(_SC_PAGESIZE)) : 0;
}

tl::expected<GrowthResult, std::string> measure_growth(const GrowthOptions& options) {
  engine::Options engine_options;
  engine_options.memory_limit_bytes = (std::size_t{64} << 20) + std::size_t{options.keys} * 64;
  engine_options.policies = measured_policies();
  MemoryWatch memory(options.keys);
  engine::Engine engine(engine_options);

  std::vector<std::unique_ptr<std::pair<TurnTimer, TurnTimer>>> timers;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    timers.push_back(std::make_unique<std::pair<TurnTimer, TurnTimer>>());
  }
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> done_again{0};
  std::atomic<bool> is_refused{false};
  std::latch ready(options.threads + 1);
  std::latch grown(options.threads);
  std::vector<std::thread> running;
  for (std::uint32_t i = 0; i < options.threads; ++i) {
    running.emplace_back([&, i] {
      if (options.pin_cpu >= 0) (void)pin_thread(options.pin_cpu + static_cast<int>(i));
      const auto worker = engine.enroll();
      DecisionBatch batch(kAdmitPolicy, kFillCost);
      const std::uint64_t first = std::uint64_t{options.keys} * i / options.threads;
      const std::uint64_t last = std::uint64_t{options.keys} * (i + 1) / options.threads;
      ready.arrive_and_wait();
      bool is_admitted = take_range(*worker, batch, first, last, timers[i]->first, done);
      worker->offline();  // Whoever is done holds up nobody.
      grown.arrive_and_wait();
      worker->online();
      is_admitted =
          is_admitted && take_range(*worker, batch, first, last, timers[i]->second, done_again);
      if (!is_admitted) is_refused.store(true);
    });
  }
  ready.arrive_and_wait();
  const std::uint64_t began_ns = read_clock(CLOCK_MONOTONIC);
  while (!grown.try_wait()) {
    memory.look(done.load(std::memory_order_relaxed));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::uint64_t took_ns = read_clock(CLOCK_MONOTONIC) - began_ns;
  for (auto& thread : running) thread.join();
  if (is_refused.load())
    return tl::unexpected(std::string("a take was not admitted while growing"));

  GrowthResult result;
  result.keys = options.keys;
  result.threads = options.threads;
  result.seconds = static_cast<double>(took_ns) / 1e9;
  for (const auto& timer : timers) {
    result.growing_ns.merge(timer->first.turns_ns());
    result.steady_ns.merge(timer->second.turns_ns());
    result.stalls += timer->first.stalls();
    result.steady_stalls += timer->second.stalls();
  }
  memory.report(result);
  return result;
}

}  // namespace pail::bench
