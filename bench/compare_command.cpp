// `pail-bench compare`: Pail beside what people use today, in one command.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/command.hpp"
#include "bench/compare.hpp"
#include "bench/report.hpp"
#include "protocol/limit_text.hpp"

namespace pail::bench {
namespace {

struct CompareArguments {
  bool is_quick = false;
  std::uint32_t rounds = 0;
  std::string seconds;
  std::string json;
  Arena arena;
};

ComparePlan plan_of(const CompareArguments& arguments) {
  ComparePlan plan = arguments.is_quick ? quick_plan() : full_plan();
  if (arguments.rounds != 0) plan.rounds = arguments.rounds;
  if (!arguments.seconds.empty()) {
    const auto run_ns = protocol::parse_duration_ns(arguments.seconds);
    if (!run_ns) throw BadArguments("--duration: " + run_ns.error());
    plan.run_ns = *run_ns;
    plan.open_loop_ns = *run_ns;
  }
  plan.memory_keys = std::min(plan.memory_keys, arguments.arena.keys);
  return plan;
}

int run(CompareArguments arguments) {
  const ComparePlan plan = plan_of(arguments);
  const WorkDirectory directory;
  Arena& arena = arguments.arena;
  arena.directory = directory.file("");
  arena.programs = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  const auto own = enter_own_network(arena.congestion);

  const bool is_terminal = isatty(STDERR_FILENO) == 1;
  const auto on_step = [is_terminal](const std::string& step) {
    if (is_terminal) {
      fmt::print(stderr, "\r{}\x1b[K", step);
    } else {
      fmt::print(stderr, "{}\n", step);
    }
    std::fflush(stderr);
  };
  auto result = compare(arena, plan, on_step, stop_requested);
  if (is_terminal) fmt::print(stderr, "\r\x1b[K");
  if (!result) {
    fmt::print(stderr, "pail-bench: compare: {}\n", result.error());
    return kExitFailed;
  }
  if (!own) {
    result->notes.push_back(fmt::format(
        "no network of its own ({}): redis and memcached send with the system's TCP congestion "
        "control, not with {}",
        own.error(), arena.congestion));
  }
  fmt::print("{}", compare_text(arena, plan, *result));
  if (arguments.json.empty()) return kExitOk;
  const std::string error = write_json(compare_json(arena, plan, *result), arguments.json);
  if (error.empty()) return kExitOk;
  fmt::print(stderr, "pail-bench: {}\n", error);
  return kExitFailed;
}

}  // namespace

std::function<int()> add_compare_command(CLI::App& app) {
  auto arguments = std::make_shared<CompareArguments>();
  CompareArguments& a = *arguments;
  a.arena.congestion = "cubic";
  app.add_flag("--quick", a.is_quick, "Fewer rows, shorter runs: within three minutes");
  app.add_option("--rounds", a.rounds, "Rounds (5, quick: 3)")->check(CLI::Range(1u, 1000u));
  app.add_option("--duration", a.seconds, "How long a run is (1s, quick: 400ms)");
  app.add_option("--keys", a.arena.keys, "Different keys")
      ->check(CLI::Range(1u, 100'000'000u))
      ->capture_default_str();
  app.add_option("--server-cpu", a.arena.server_cpu, "CPU of the servers; -1: any")
      ->capture_default_str();
  app.add_option("--bench-cpu", a.arena.bench_cpu, "CPU of the generator; -1: any")
      ->capture_default_str();
  app.add_option("--tcp-congestion", a.arena.congestion, "TCP congestion control of all")
      ->capture_default_str();
  app.add_option("--json", a.json, "Write the result as JSON to this file");
  return [arguments] { return run(*arguments); };
}

}  // namespace pail::bench
