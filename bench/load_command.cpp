// `pail-bench` without a sub-command: load on a server, and the report.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "bench/command.hpp"
#include "bench/echo_process.hpp"
#include "bench/load_run.hpp"
#include "bench/report.hpp"
#include "protocol/limit_text.hpp"
#include "server/engine/rate.hpp"

namespace pail::bench {
namespace {

struct Arguments {
  std::string server;
  std::string target = "pail";
  std::string distribution = "uniform";
  std::string rate;
  std::string burst;
  std::string duration = "5s";
  std::string warmup;
  std::string json;
  int target_pin = -1;
  std::optional<std::uint64_t> requests;
  std::optional<std::uint64_t> seed;
  LoadOptions options;  // those that need no conversion are read into it directly
};

template <class T>
T need(tl::expected<T, std::string> value, std::string_view flag) {
  if (!value) throw BadArguments(fmt::format("{}: {}", flag, value.error()));
  return std::move(*value);
}

std::uint64_t duration_of(const std::string& text, std::string_view flag) {
  if (text == "0" || text == "0s") return 0;
  return need(protocol::parse_duration_ns(text), flag);
}

void read_limit(const Arguments& arguments, LoadOptions& options) {
  const bool has_inline = !arguments.rate.empty() || !arguments.burst.empty();
  if (!options.policy.empty()) {
    if (has_inline)
      throw BadArguments("--policy names a limit of the server: no --rate or --burst");
    return;
  }
  options.rate_text = arguments.rate.empty() ? "100/s" : arguments.rate;
  const auto rate = need(protocol::parse_rate(options.rate_text), "--rate");
  options.limit.count = rate.count;
  options.limit.period_ns = rate.period_ns;
  options.limit.burst = arguments.burst.empty()
                            ? rate.count
                            : need(protocol::parse_burst(arguments.burst), "--burst");
  const std::string wrong =
      engine::check_rate({options.limit.period_ns, options.limit.count, options.limit.burst});
  if (!wrong.empty()) throw BadArguments("--rate, --burst: " + wrong);
}

LoadOptions read_options(const Arguments& arguments) {
  LoadOptions options = arguments.options;
  if (!arguments.server.empty() || arguments.target == "pail") {
    options.server =
        need(protocol::parse_address(arguments.server.empty() ? "127.0.0.1" : arguments.server),
             "--server");
  }
  if (arguments.target_pin >= 0 && (arguments.target != "echo" || !arguments.server.empty())) {
    throw BadArguments("--target-pin: only the server of --target echo without --server is ours");
  }
  options.distribution = need(parse_distribution(arguments.distribution), "--dist");
  read_limit(arguments, options);
  options.requests = arguments.requests;
  options.duration_ns = duration_of(arguments.duration, "--duration");
  if (options.duration_ns == 0) throw BadArguments("--duration: at least 1ns");
  // A number of requests is usually a matter of counting; a warm-up would blur it.
  const std::string default_warmup = options.requests ? "0" : "300ms";
  options.warmup_ns =
      duration_of(arguments.warmup.empty() ? default_warmup : arguments.warmup, "--warmup");
  if (options.keys > distinct_keys(options.key_size_bytes)) {
    throw BadArguments(
        fmt::format("--keys: {} different keys do not fit into {} hexadecimal digits", options.keys,
                    digits_in(options.key_size_bytes)));
  }
  if (options.threads > options.connections) {
    throw BadArguments("--threads: every thread needs a connection of its own");
  }
  if (options.connections > std::uint64_t{kMaxConnections} * options.threads) {
    throw BadArguments(fmt::format("--connections: at most {} a thread", kMaxConnections));
  }
  options.seed = arguments.seed ? *arguments.seed : std::random_device{}();
  return options;
}

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

int run(const Arguments& arguments) {
  LoadOptions options = read_options(arguments);
  std::optional<EchoProcess> echo;
  const auto fail = [](const std::string& text) {
    fmt::print(stderr, "pail-bench: {}\n", text);
    return kExitFailed;
  };
  if (arguments.target == "echo" && arguments.server.empty()) {
    auto started = EchoProcess::start(options.congestion, arguments.target_pin);
    if (!started) return fail(started.error());
    echo.emplace(std::move(*started));
    options.server = echo->address();
  }

  LoadHooks hooks;
  hooks.stop = &stop_requested;
  LiveLine live;
  live.attach(hooks);
  const auto result = run_load(options, hooks);
  live.clear();
  if (!result) return fail(result.error());

  fmt::print(stderr, "{}", result_table(arguments.target, options, *result));
  if (!arguments.json.empty()) {
    const std::string error =
        write_json(result_json(arguments.target, options, *result), arguments.json);
    if (!error.empty()) return fail(error);
  }
  if (result->total.errors() == 0) return kExitOk;
  return fail(fmt::format("{} requests were not decided: see the table", result->total.errors()));
}

}  // namespace

std::function<int()> add_load_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  LoadOptions& o = a.options;
  app.add_option("--server", a.server,
                 "Address of the server: HOST:PORT or unix:PATH (127.0.0.1:7245)");
  app.add_option("--target", a.target,
                 "What the server is: pail, or echo, the ceiling: started if no --server is given")
      ->check(CLI::IsMember({"pail", "echo"}))
      ->capture_default_str();
  app.add_option("--target-pin", a.target_pin, "CPU of the echo server that is started")
      ->check(CLI::Range(0, 1023));
  app.add_option("--connections", o.connections, "Connections")
      ->check(CLI::Range(1u, kMaxConnections * kMaxThreads))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads that share them")
      ->check(CLI::Range(1u, kMaxThreads))
      ->capture_default_str();
  app.add_option("--pipeline", o.pipeline, "Requests in flight on a connection, sent as one batch")
      ->check(CLI::Range(1u, kMaxPipeline))
      ->capture_default_str();
  app.add_option("--keys", o.keys, "Different keys")
      ->check(CLI::Range(1u, ~0u))
      ->capture_default_str();
  app.add_option("--dist", a.distribution,
                 "How they are drawn: uniform, zipf:0.99 or hot (one key)")
      ->capture_default_str();
  app.add_option("--key-size", o.key_size_bytes, "Bytes a key")
      ->check(CLI::Range(protocol::kMinKeyBytes, protocol::kMaxKeyBytes))
      ->capture_default_str();
  app.add_option("--rate", a.rate,
                 "Inline limit: COUNT/PERIOD, as 100/s, 10/min or 3/250ms (100/s)");
  app.add_option("--burst", a.burst, "Inline limit: most tokens at once (the count of the rate)");
  app.add_option("--policy", o.policy, "A policy of the server instead of an inline limit");
  app.add_option("--cost", o.cost, "Tokens a request")
      ->check(CLI::Range(1u, ~0u))
      ->capture_default_str();
  auto* duration =
      app.add_option("--duration", a.duration, "How long to measure")->capture_default_str();
  app.add_option("--requests", a.requests, "How many requests to measure, instead of a duration")
      ->check(CLI::Range(std::uint64_t{1}, ~std::uint64_t{0}))
      ->excludes(duration);
  app.add_option("--warmup", a.warmup,
                 "How long to run before measuring (300ms; none with --requests)");
  app.add_option("--json", a.json,
                 "Write the result as JSON to this file; - is the standard output");
  app.add_option("--tcp-congestion", o.congestion,
                 "TCP congestion control (cubic, bbr); the system's if not given");
  app.add_option("--pin", o.pin_cpu, "CPU of the first thread; the others take the next ones")
      ->check(CLI::Range(0, 1023));
  app.add_option("--seed", a.seed, "Of the random keys; drawn and reported if not given");
  return [arguments] { return run(*arguments); };
}

}  // namespace pail::bench
