#include "tests/model/explore_all.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>

namespace pail::model {
namespace {

// The same violation again, by as few preemptions as it takes.
Report shortest(const Job& job, Report found) {
  if (job.limits.random_runs != 0) return found;
  for (unsigned preemptions = 0; preemptions < job.limits.preemptions; ++preemptions) {
    Report report = explore(job.setting, {.preemptions = preemptions});
    if (!report.violation.empty()) return report;
  }
  return found;
}

}  // namespace

std::string tell(const Setting& setting, const Report& report) {
  std::string text = setting.name() + "\n" + report.violation + "\n";
  for (const std::string& line : report.trace) text += "    " + line + "\n";
  return text;
}

Total explore_all(const std::vector<Job>& jobs) {
  Total total;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;  // guards total
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      Report report = explore(jobs[i].setting, jobs[i].limits);
      const std::lock_guard lock(mutex);
      total.runs += report.runs;
      total.states += report.states;
      if (report.violation.empty() || !total.fault.empty()) continue;
      total.fault = tell(jobs[i].setting, shortest(jobs[i], std::move(report)));
      next = jobs.size();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return total;
}

bool is_long() {
  const char* const given = std::getenv("PAIL_MODEL");
  return given != nullptr && std::string_view(given) == "long";
}

}  // namespace pail::model
