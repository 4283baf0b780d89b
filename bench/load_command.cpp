// `pail-bench` without a sub-command: load on a server, and the report.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/audit_report.hpp"
#include "bench/command.hpp"
#include "bench/echo_process.hpp"
#include "bench/load_arguments.hpp"
#include "bench/load_run.hpp"
#include "bench/output_files.hpp"
#include "bench/report.hpp"
#include "bench/target_setup.hpp"

namespace pail::bench {
namespace {

// Redraws itself on a terminal; elsewhere there is no live line.
class LiveLine {
 public:
  LiveLine() : is_terminal_(isatty(STDERR_FILENO) == 1) {}
  void attach(LoadHooks& hooks) {
    if (!is_terminal_) return;
    hooks.on_progress = [](const LiveView& view) {
      fmt::print(stderr, "\r{}\x1b[K", live_line(view));
      std::fflush(stderr);
    };
  }
  void clear() const {
    if (is_terminal_) fmt::print(stderr, "\r\x1b[K");
  }

 private:
  bool is_terminal_;
};

std::string key_text(const LoadOptions& options, std::uint32_t key) {
  if (options.trace) return options.trace->keys[key];
  const std::size_t digits = digits_in(options.key_size_bytes);
  return key_filler(options.key_size_bytes) + fmt::format("{:0{}x}", key, digits);
}

int fail(const std::string& text, int code = kExitFailed) {
  fmt::print(stderr, "pail-bench: {}\n", text);
  return code;
}

// Empty, or why a file could not be written.
std::string write_files(const LoadArguments& arguments, const LoadPlan& plan,
                        const LoadResult& result, const nlohmann::json& json) {
  std::string error;
  const auto write = [&error](const std::string& path, auto write_it) {
    if (!path.empty() && error.empty()) error = write_it(path);
  };
  write(arguments.json, [&](const std::string& path) { return write_json(json, path); });
  write(arguments.csv, [&](const std::string& path) { return write_csv(result, path); });
  write(arguments.hgrm,
        [&](const std::string& path) { return write_hgrm(result.latencies_ns, path); });
  write(arguments.plot, [&](const std::string& path) {
    return write_plot(result, workload_text(plan.options), path);
  });
  if (!arguments.audit_log.empty() && error.empty()) {
    const auto written = write_audit_log(arguments.audit_log, *plan.bound, result.grants);
    if (!written) error = written.error();
  }
  return error;
}

int run(const LoadArguments& arguments) {
  LoadPlan plan = plan_load(arguments);
  LoadOptions& options = plan.options;
  if (!arguments.plot.empty()) {
    if (const std::string fault = fault_in_gnuplot(); !fault.empty()) {
      throw BadArguments("--plot: " + fault);
    }
  }
  std::optional<EchoProcess> echo;
  if (arguments.target == "echo" && arguments.server.empty()) {
    auto started = EchoProcess::start(options.congestion, arguments.target_pin);
    if (!started) return fail(started.error());
    echo.emplace(std::move(*started));
    options.server = echo->address();
  }
  if (auto prepared = prepare_target(options); !prepared) return fail(prepared.error());

  LoadHooks hooks;
  hooks.stop = &stop_requested;
  LiveLine live;
  live.attach(hooks);
  auto result = run_load(options, hooks);
  live.clear();
  if (!result) return fail(result.error());

  fmt::print(stderr, "{}", result_table(options, *result));
  nlohmann::json json = result_json(options, *result);
  std::optional<AuditResult> audited;
  if (arguments.is_audited && !result->has_lost_grants) {
    const auto key_name = [&options](std::uint32_t key) { return key_text(options, key); };
    audited = audit(*plan.bound, result->grants);
    fmt::print(stderr, "{}", audit_text(*plan.bound, *audited, key_name));
    json["audit"] = audit_json(*plan.bound, *audited, key_name);
  }
  const auto broken = missed(plan.objectives, result->latencies_ns);
  if (!plan.objectives.empty()) json["slo_missed"] = broken;
  if (const auto error = write_files(arguments, plan, *result, json); !error.empty()) {
    return fail(error);
  }
  if (result->total.errors() != 0) {
    return fail(fmt::format("{} requests were not decided: see the table", result->total.errors()));
  }
  if (result->unanswered != 0) {
    return fail(fmt::format("{} requests got no answer within 10 s", result->unanswered));
  }
  if (result->has_lost_grants) {
    return fail(
        fmt::format("more than {} grants, which is what an audit can hold: a shorter run, "
                    "or fewer tokens",
                    kMaxGrants));
  }
  if (audited && audited->keys_over != 0) {
    return fail("the server granted more than the limit allows", kExitOverGrant);
  }
  for (const std::string& line : broken) fmt::print(stderr, "pail-bench: missed: {}\n", line);
  return broken.empty() ? kExitOk : kExitMissed;
}

}  // namespace

std::function<int()> add_load_command(CLI::App& app) {
  auto arguments = std::make_shared<LoadArguments>();
  add_load_options(app, *arguments);
  return [arguments] { return run(*arguments); };
}

}  // namespace pail::bench
