// Runs a few tasks in every order of their steps. A task calls step() before each thing that it
// does to shared state, and is held there until its turn; between steps it runs alone, so tasks
// need no synchronization of their own. Deterministic tasks, a handful of steps each: the number of
// orders is a binomial coefficient.
//
//   Interleavings orders;
//   orders.explore([&] { reset(); return std::vector<Interleavings::Task>{a, b}; },
//                  [&] { check(); });
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace pail::test {

class Interleavings {
 public:
  using Task = std::function<void()>;

  // How many orders there were. `make` sets up afresh and returns the tasks; `check` looks at what
  // has become of it.
  template <class Make, class Check>
  std::size_t explore(Make make, Check check) {
    std::vector<Choice> choices;
    std::size_t orders = 0;
    do {
      run(make(), choices);
      check();
      ++orders;
    } while (advance(choices));
    return orders;
  }

  // Only from a task.
  void step() {
    std::unique_lock lock(mutex_);
    turn_ = kScheduler;
    changed_.notify_all();
    changed_.wait(lock, [this] { return turn_ == self_; });
  }

 private:
  struct Choice {
    std::size_t taken = 0;
    std::size_t options = 0;
  };
  static constexpr std::size_t kScheduler = ~std::size_t{0};

  // Follows `choices` as far as they go, then takes the first option, and notes both.
  void run(const std::vector<Task>& tasks, std::vector<Choice>& choices) {
    std::vector<std::size_t> live;
    std::vector<std::thread> threads;
    turn_ = kScheduler;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      live.push_back(i);
      threads.emplace_back([this, i, &tasks, &live] {
        self_ = i;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return turn_ == i; });
        }
        tasks[i]();
        const std::lock_guard lock(mutex_);
        std::erase(live, i);
        turn_ = kScheduler;
        changed_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    for (std::size_t depth = 0; !live.empty(); ++depth) {
      if (depth == choices.size()) choices.push_back({0, live.size()});
      turn_ = live[choices[depth].taken];
      changed_.notify_all();
      changed_.wait(lock, [this] { return turn_ == kScheduler; });
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
  }

  static bool advance(std::vector<Choice>& choices) {
    while (!choices.empty()) {
      if (++choices.back().taken < choices.back().options) return true;
      choices.pop_back();
    }
    return false;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t turn_ = kScheduler;  // whose it is; under the mutex
  static inline thread_local std::size_t self_ = 0;
};

}  // namespace pail::test
