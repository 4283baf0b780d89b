// What a server does with three times what it can do: finds the rate with the most good answers,
// offers three times as much, then half of it, and prints what became of the requests.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "bench/crowds/deadline_load.hpp"

namespace {

using namespace std::chrono_literals;
using pail::bench::DeadlineCounts;
using pail::bench::DeadlineLoad;
using pail::bench::DeadlineOptions;

int complain(const std::string& text) {
  fmt::print(stderr, "overload-bench: {}\n", text);
  return 1;
}

struct Phase {
  double offered = 0;  // all a second
  double dropped = 0;
  double good = 0;
  double late = 0;
  double expired = 0;
  double overloaded = 0;
  double late_to_offer_us = 0;  // at most
};

Phase per_second(const std::vector<DeadlineCounts>& parts, std::chrono::milliseconds part) {
  DeadlineCounts sum;
  for (const DeadlineCounts& one : parts) sum += one;
  const double seconds =
      static_cast<double>(parts.size()) * static_cast<double>(part.count()) / 1e3;
  const auto rate = [&](std::uint64_t n) { return static_cast<double>(n) / seconds; };
  return {rate(sum.offered),
          rate(sum.dropped),
          rate(sum.good),
          rate(sum.late),
          rate(sum.expired),
          rate(sum.overloaded),
          static_cast<double>(sum.late_to_offer_us)};
}

void print(const char* name, const Phase& phase) {
  fmt::print("{:10} {:>12.0f} {:>12.0f} {:>12.0f} {:>10.0f} {:>10.0f} {:>10.0f} {:>9.0f}\n", name,
             phase.offered, phase.dropped, phase.good, phase.late, phase.expired, phase.overloaded,
             phase.late_to_offer_us);
  std::fflush(stdout);
}

// A part of a phase is normal where so many of what is offered are good.
constexpr double kNormal = 0.99;
constexpr auto kPart = 100ms;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"overload-bench: open loop at three times what the server can do", "overload-bench"};
  DeadlineOptions options;
  std::string server = "127.0.0.1:7245";
  double from_per_s = 250'000;
  double to_per_s = 64'000'000;
  int seconds = 20;
  int cpu = -1;
  bool has_no_deadlines = false;
  app.add_option("--server", server)->capture_default_str();
  app.add_option("--tcp-congestion", options.congestion);
  app.add_option("--connections", options.connections)->check(CLI::Range(1, 4096));
  app.add_option("--batch", options.batch, "Requests that go to one connection together")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--keys", options.keys)->capture_default_str();
  app.add_option("--deadline-us", options.deadline_us)->capture_default_str();
  app.add_option("--margin-us", options.margin_us, "Deadlines are said to be so much earlier")
      ->capture_default_str();
  app.add_flag("--untold", has_no_deadlines, "Do not tell the server the deadlines");
  app.add_option("--from", from_per_s, "First rate that is tried, a second")->capture_default_str();
  app.add_option("--to", to_per_s, "No rate above this is tried")->capture_default_str();
  app.add_option("--seconds", seconds, "Of overload")->check(CLI::Range(1, 600));
  app.add_option("--pin", cpu, "CPU");
  CLI11_PARSE(app, argc, argv);
  options.has_deadlines = !has_no_deadlines;

  const auto address = pail::protocol::parse_address(server);
  if (!address) return complain(address.error());
  options.server = *address;
  if (const auto pinned = pail::bench::pin_thread(cpu); !pinned) return complain(pinned.error());
  DeadlineLoad load(options);
  if (const auto opened = load.open(); !opened) return complain(opened.error());

  fmt::print("{:10} {:>12} {:>12} {:>12} {:>10} {:>10} {:>10} {:>9}\n", "a second", "offered",
             "dropped", "good", "late", "expired", "overloaded", "lag us");
  // The server touches its memory for the first time here.
  if (const auto warm = load.run(from_per_s, 2s, kPart); !warm) return complain(warm.error());
  double peak = 0;
  int poor_in_row = 0;  // a hiccup is not the limit
  for (double rate = from_per_s; rate <= to_per_s && poor_in_row < 2; rate *= 1.25) {
    const auto parts = load.run(rate, 500ms, kPart);
    if (!parts) return complain(parts.error());
    const Phase phase = per_second(*parts, kPart);
    print("search", phase);
    peak = std::max(peak, phase.good);
    poor_in_row = phase.good < 0.7 * phase.offered ? poor_in_row + 1 : 0;
  }
  const auto calm = load.run(peak / 2, 2s, kPart);
  if (!calm) return complain(calm.error());
  print("half", per_second(*calm, kPart));
  const auto overload = load.run(peak * 3, std::chrono::seconds(seconds), kPart);
  if (!overload) return complain(overload.error());
  const Phase over = per_second(*overload, kPart);
  print("triple", over);
  const auto after = load.run(peak / 2, 4s, kPart);
  if (!after) return complain(after.error());
  print("half", per_second(*after, kPart));

  const auto poor = [](const DeadlineCounts& part) {
    return static_cast<double>(part.good) < kNormal * static_cast<double>(part.offered);
  };
  const auto first_normal = std::find_if_not(after->begin(), after->end(), poor);
  const auto later = after->begin() + 2s / kPart;
  fmt::print(
      "peak {:.0f}/s; at three times that {:.1f} % of it; charged and late {:.4f} % of the "
      "good; first normal after {} ms\nparts of {} ms that were not normal at half the peak: {} of "
      "{} "
      "before, {} of {} from 2 s after on\n",
      peak, over.good / peak * 100, over.late / over.good * 100,
      (first_normal - after->begin()) * kPart.count(), kPart.count(),
      std::count_if(calm->begin(), calm->end(), poor), calm->size(),
      std::count_if(later, after->end(), poor), after->end() - later);
  return 0;
}
