// `pail-bench client`: the client library as a gateway uses it. How many takes a second a thread decides,
// who decided them, and how long calls took, second by second: so it shows what leases save, and what an
// outage costs (stop, kill or unplug the server while it runs).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <pail/client.hpp>
#include <string>
#include <thread>
#include <vector>

#include "bench/command.hpp"
#include "bench/histogram.hpp"

namespace pail::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string server = "127.0.0.1:7245";
  std::string policy;
  std::string key = "hot";
  unsigned threads = 1;
  unsigned seconds = 5;
  unsigned deadline_us = 5000;
  bool no_leases = false;
};

// One thread's. The clock is read around every 64th call, and around each that was not decided here.
struct Caller {
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> admitted{0};
  std::atomic<std::uint64_t> by_lease{0};
  std::atomic<std::uint64_t> by_server{0};
  std::atomic<std::uint64_t> fallen_back{0};
  std::atomic<std::uint64_t> errors{0};
  LiveHistogram latency_ns;

  // By its thread only: a plain store costs less than an addition that is atomic.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  void run(Client& client, const Limit& limit, const std::string& key,
           const std::atomic<bool>& is_over) {
    bool is_timed = true;
    for (std::uint64_t n = 0; !is_over.load(std::memory_order_relaxed); ++n) {
      const Clock::time_point start = is_timed ? Clock::now() : Clock::time_point{};
      const auto decision = client.take(limit, key);
      if (is_timed) {
        latency_ns.record(static_cast<std::uint64_t>((Clock::now() - start).count()));
      }
      count(calls);
      is_timed = n % 64 == 0;
      if (!decision) {
        count(errors);
        continue;
      }
      if (decision->admitted()) count(admitted);
      const bool is_here = decision->source == Decision::Source::lease;
      is_timed = is_timed || !is_here;
      count(is_here ? by_lease : decision->is_fallback() ? fallen_back : by_server);
    }
  }
};

struct Sum {
  std::uint64_t calls = 0, admitted = 0, by_lease = 0, by_server = 0, fallen_back = 0, errors = 0;
  Histogram latency_ns;
};

Sum sum_of(const std::vector<std::unique_ptr<Caller>>& callers) {
  Sum sum;
  for (const auto& caller : callers) {
    sum.calls += caller->calls;
    sum.admitted += caller->admitted;
    sum.by_lease += caller->by_lease;
    sum.by_server += caller->by_server;
    sum.fallen_back += caller->fallen_back;
    sum.errors += caller->errors;
    sum.latency_ns.merge(caller->latency_ns.snapshot());
  }
  return sum;
}

void print_row(const std::string& when, const Sum& now, const Sum& before, double seconds) {
  const Histogram latency = now.latency_ns.since(before.latency_ns);
  const auto a_second = [&](std::uint64_t later, std::uint64_t earlier) {
    return static_cast<double>(later - earlier) / seconds;
  };
  fmt::print("{:>8} {:>13.0f} {:>13.0f} {:>11.0f} {:>13.0f} {:>9.0f} {:>9.1f} {:>9.1f} {:>9.1f}\n",
             when, a_second(now.calls, before.calls), a_second(now.by_lease, before.by_lease),
             a_second(now.by_server, before.by_server),
             a_second(now.fallen_back, before.fallen_back), a_second(now.errors, before.errors),
             static_cast<double>(latency.percentile(50)) / 1000,
             static_cast<double>(latency.percentile(99.9)) / 1000,
             static_cast<double>(latency.percentile(100)) / 1000);
  std::fflush(stdout);
}

int run(const Arguments& arguments) {
  ClientOptions options;
  options.name = "pail-bench";
  options.deadline = std::chrono::microseconds(arguments.deadline_us);
  if (arguments.no_leases) options.lease_keys = 0;
  auto client = Client::connect(arguments.server, options);
  if (!client) {
    fmt::print(stderr, "pail-bench client: {}\n", client.error().text);
    return kExitFailed;
  }
  const Limit limit = Limit::policy(arguments.policy);
  std::atomic<bool> is_over{false};
  std::vector<std::unique_ptr<Caller>> callers;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < arguments.threads; ++i) {
    callers.push_back(std::make_unique<Caller>());
    threads.emplace_back([&, caller = callers.back().get()] {
      caller->run(*client, limit, arguments.key, is_over);
    });
  }
  fmt::print("{:>8} {:>13} {:>13} {:>11} {:>13} {:>9} {:>9} {:>9} {:>9}\n", "second", "takes/s",
             "leased/s", "server/s", "fallback/s", "errors/s", "p50 us", "p99.9 us", "max us");
  const Clock::time_point start = Clock::now();
  const auto before = std::make_unique<Sum>();
  for (unsigned second = 1; second <= arguments.seconds && stop_requested == 0; ++second) {
    std::this_thread::sleep_until(start + std::chrono::seconds(second));
    const auto now = std::make_unique<Sum>(sum_of(callers));
    print_row(std::to_string(second), *now, *before, 1);
    *before = *now;
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  client->close();

  const auto all = std::make_unique<Sum>(sum_of(callers));
  const auto nothing = std::make_unique<Sum>();
  print_row("all", *all, *nothing, seconds);
  const ClientCounters counters = client->counters();
  fmt::print(
      "{:.2f} M takes/s a thread; {:.3f} % of them asked the server; admitted {}; leased {}, spent "
      "{}, returned {}, expired {}\n{} timeouts, circuit opened {} times, {} connections, {} "
      "attempts to connect that failed\n",
      static_cast<double>(all->calls) / 1e6 / seconds / arguments.threads,
      100.0 * static_cast<double>(all->by_server) /
          static_cast<double>(std::max<std::uint64_t>(all->calls, 1)),
      all->admitted, counters.leased, counters.lease_spent, counters.lease_returned,
      counters.lease_expired, counters.timeouts, counters.circuit_opened, counters.connects,
      counters.failed_connects);
  return all->errors == 0 ? kExitOk : kExitFailed;
}

}  // namespace

std::function<int()> add_client_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("--server", arguments->server, "Address of paild: HOST:PORT or unix:PATH")
      ->capture_default_str();
  app.add_option("--policy", arguments->policy, "Its policy to take from")->required();
  app.add_option("--key", arguments->key, "The one key")->capture_default_str();
  app.add_option("--threads", arguments->threads, "Threads that share one client")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "How long")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  app.add_option("--deadline-us", arguments->deadline_us, "Of a call, in microseconds")
      ->check(CLI::Range(1, 60'000'000))
      ->capture_default_str();
  app.add_flag("--no-leases", arguments->no_leases, "Ask the server each time");
  return [arguments] { return run(*arguments); };
}

}  // namespace pail::bench
