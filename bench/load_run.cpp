#include "bench/load_run.hpp"

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/generator.hpp"

namespace pail::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr auto kWatchInterval = std::chrono::milliseconds(200);
constexpr auto kSilenceLimit = std::chrono::seconds(5);
constexpr std::size_t kMaxTimelineRows = 100'000;  // 5 hours and a half

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The threads of one run. Guarded by mutex: unfinished, failure.
class Run {
 public:
  explicit Run(const LoadOptions& options)
      : opened_(options.threads), unfinished_(options.threads) {
    for (std::uint32_t i = 0; i < options.threads; ++i) {
      generators_.push_back(std::make_unique<Generator>(options, i));
    }
    for (auto& generator : generators_) {
      threads_.emplace_back([this, &generator] { work(*generator); });
    }
  }

  // Waits for the end, drawing the live line and watching for a server that went silent.
  void watch(const LoadHooks& hooks) {
    auto last_answer = Clock::now();
    std::uint64_t answered = 0;
    View view;
    std::unique_lock lock(mutex_);
    while (!finished_.wait_for(lock, kWatchInterval, [this] { return unfinished_ == 0; })) {
      const auto now = Clock::now();
      if (hooks.stop != nullptr && *hooks.stop != 0) control_.stop.store(true);
      if (const auto total = sum(&Progress::answered);
          total != answered || !is_open_ || !is_awaiting(total)) {
        answered = total;
        last_answer = now;
      }
      if (now - last_answer > kSilenceLimit) {
        if (failure_.empty()) failure_ = "the server gave no answer for 5 s";
        for (auto& generator : generators_) generator->abort();
      }
      if (is_open_) advance(hooks, now, view);
    }
  }

  [[nodiscard]] tl::expected<void, std::string> join() {
    for (auto& thread : threads_) thread.join();
    if (!failure_.empty()) return tl::unexpected(failure_);
    return {};
  }

  [[nodiscard]] std::vector<TimelineRow>& timeline() noexcept { return timeline_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Generator>>& generators() const noexcept {
    return generators_;
  }

 private:
  struct View {
    Clock::time_point at{};
    std::uint64_t answered = 0, refused = 0, errors = 0;
    Histogram latencies;
  };

  // Whether an answer is due: an open loop may have nothing to ask for a while.
  [[nodiscard]] bool is_awaiting(std::uint64_t answered) const {
    return sum(&Progress::sent) > answered;
  }

  void work(Generator& generator) {
    auto result = generator.open();
    finish_opening(result);
    opened_.arrive_and_wait();  // All start together, or, if one could not connect, none.
    if (result && is_open_) result = generator.run(control_);
    const std::scoped_lock lock(mutex_);
    if (!result) {
      if (failure_.empty()) failure_ = result.error();
      control_.stop.store(true);  // One wrong reply ends the run.
    }
    if (--unfinished_ == 0) finished_.notify_all();
  }

  void finish_opening(const tl::expected<void, std::string>& result) {
    const std::scoped_lock lock(mutex_);
    if (!result && failure_.empty()) failure_ = result.error();
    if (++opened_count_ == generators_.size()) is_open_ = failure_.empty();
  }

  [[nodiscard]] std::uint64_t sum(std::atomic<std::uint64_t> Progress::*counter) const {
    std::uint64_t total = 0;
    for (const auto& generator : generators_) {
      total += (generator->progress().*counter).load(std::memory_order_relaxed);
    }
    return total;
  }

  // One more interval: a row of the time series, and the live line.
  void advance(const LoadHooks& hooks, Clock::time_point now, View& last) {
    View current{
        now, sum(&Progress::answered), sum(&Progress::refused), sum(&Progress::errors), {}};
    for (const auto& generator : generators_) {
      current.latencies.merge(generator->latencies().snapshot());
    }
    const double seconds = Seconds(now - last.at).count();
    if (last.at == Clock::time_point{}) {
      started_ = now;
    } else {
      LiveView view;
      view.elapsed_s = Seconds(now - started_).count();
      view.is_measuring =
          generators_.front()->progress().is_measuring.load(std::memory_order_relaxed);
      const auto answers = static_cast<double>(current.answered - last.answered);
      view.requests_per_s = answers / seconds;
      const auto refused = static_cast<double>(current.refused - last.refused);
      view.refused_percent = answers > 0 ? refused / answers * 100 : 0;
      view.latencies_ns = current.latencies.since(last.latencies);
      if (timeline_.size() < kMaxTimelineRows) {
        const auto at = [&view](double percent) {
          return static_cast<double>(view.latencies_ns.percentile(percent));
        };
        timeline_.push_back({view.elapsed_s, view.is_measuring, view.requests_per_s,
                             refused / seconds,
                             static_cast<double>(current.errors - last.errors) / seconds, at(50),
                             at(99), at(99.9)});
      }
      if (hooks.on_progress) hooks.on_progress(view);
    }
    last = current;
  }

  std::vector<std::unique_ptr<Generator>> generators_;
  RunControl control_;
  std::latch opened_;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t unfinished_;
  std::size_t opened_count_ = 0;
  std::atomic<bool> is_open_{false};
  std::string failure_;
  Clock::time_point started_{};        // of the time series; of the watching thread
  std::vector<TimelineRow> timeline_;  // likewise
  std::vector<std::thread> threads_;
};

}  // namespace

tl::expected<LoadResult, std::string> run_load(const LoadOptions& options, const LoadHooks& hooks) {
  const double cpu_before = cpu_seconds();
  Run run(options);
  run.watch(hooks);
  if (auto joined = run.join(); !joined) return tl::unexpected(joined.error());

  LoadResult result;
  std::uint64_t completions = 0;
  std::uint64_t turns = 0;
  for (const auto& generator : run.generators()) {
    const GeneratorResult& part = generator->result();
    result.total.add(part.measured);
    result.total.add(part.unmeasured);
    result.measured.add(part.measured);
    result.sent += part.sent;
    result.offered += part.offered;
    result.unanswered += part.unanswered;
    completions += part.completions;
    turns += part.turns;
    const double seconds = static_cast<double>(part.measured_ns) / 1e9;
    result.seconds = std::max(result.seconds, seconds);
    if (seconds > 0) {
      result.requests_per_s += static_cast<double>(part.measured.answered()) / seconds;
    }
    result.latencies_ns.merge(generator->latencies().snapshot());
    const Meters& meters = generator->meters();
    result.lag_ns.merge(meters.lag.snapshot());
    result.grants.insert(result.grants.end(), meters.grants.begin(), meters.grants.end());
    result.has_lost_grants = result.has_lost_grants || meters.has_lost_grants;
  }
  result.timeline = std::move(run.timeline());
  result.generator_cpu_s = cpu_seconds() - cpu_before;
  result.completions_per_turn =
      turns > 0 ? static_cast<double>(completions) / static_cast<double>(turns) : 0;
  return result;
}

}  // namespace pail::bench
