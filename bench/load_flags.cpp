// The flags of a load run: names, help, ranges.
#include "bench/load_arguments.hpp"
#include "protocol/limit_text.hpp"
#include "protocol/messages.hpp"

namespace pail::bench {
namespace {

void add_target_flags(CLI::App& app, LoadArguments& a) {
  LoadOptions& o = a.options;
  app.add_option("--server", a.server,
                 "Address of the server: HOST:PORT or unix:PATH (the target's usual port)");
  app.add_option("--token-file", a.token_file,
                 "File with the token that the server wants; else PAIL_TOKEN");
  app.add_option("--target", a.target,
                 "What the server is: pail, redis, memcached, or echo, the ceiling: started if no "
                 "--server is given")
      ->check(CLI::IsMember({"pail", "echo", "redis", "memcached"}))
      ->capture_default_str();
  app.add_option("--method", a.method,
                 "How redis is asked: lua (EVALSHA of a token bucket), incr (INCR and EXPIRE), "
                 "throttle (CL.THROTTLE)")
      ->check(CLI::IsMember({"lua", "incr", "throttle"}))
      ->capture_default_str();
  app.add_option("--target-pin", a.target_pin, "CPU of the echo server that is started")
      ->check(CLI::Range(0, 1023));
  app.add_option("--connections", o.connections, "Connections")
      ->check(CLI::Range(1u, kMaxConnections * kMaxThreads))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads that share them")
      ->check(CLI::Range(1u, kMaxThreads))
      ->capture_default_str();
  app.add_option("--ramp", a.ramp, "Over how long the connections begin, one after another")
      ->capture_default_str();
  app.add_option("--tcp-congestion", o.congestion,
                 "TCP congestion control (cubic, bbr); the system's if not given");
  app.add_option("--pin", o.pin_cpu, "CPU of the first thread; the others take the next ones")
      ->check(CLI::Range(0, 1023));
}

void add_work_flags(CLI::App& app, LoadArguments& a) {
  LoadOptions& o = a.options;
  app.add_option("--pipeline", o.pipeline,
                 "Requests in flight on a connection, sent as one batch; in an open loop, requests "
                 "in a row that go to one connection")
      ->check(CLI::Range(1u, kMaxPipeline))
      ->capture_default_str();
  app.add_option("--arrival", a.arrival,
                 "Open loop: requests are due at this rate whatever the server does, as 50k/s or "
                 "poisson:50k/s, and latency counts from when they were due");
  app.add_option("--trace", a.trace, "Open loop by a file of 'key cost gap_us' lines");
  app.add_option("--keys", o.keys, "Different keys")
      ->check(CLI::Range(1u, ~0u))
      ->capture_default_str();
  app.add_option("--dist", a.distribution,
                 "How they are drawn: uniform, zipf:0.99, hot (one key) or sequential")
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
  app.add_option("--mix", a.mix,
                 "Operations: take, peek, lease, layers, or shares, as take:90,peek:10")
      ->capture_default_str();
  app.add_option("--layer", o.layers,
                 "Another policy that layers take from, besides --policy and by the same key; may "
                 "be given seven times");
  app.add_option("--seed", a.seed, "Of the random keys; drawn and reported if not given")
      ->check(protocol::fault_in_whole_number);
}

void add_time_flags(CLI::App& app, LoadArguments& a) {
  auto* duration =
      app.add_option("--duration", a.duration, "How long to measure")->capture_default_str();
  duration->each([&a](const std::string&) { a.has_duration = true; });
  app.add_option("--requests", a.requests, "How many requests to measure, instead of a duration")
      ->check(CLI::Range(std::uint64_t{1}, ~std::uint64_t{0}))
      ->check(protocol::fault_in_whole_number)
      ->excludes(duration);
  app.add_option("--warmup", a.warmup,
                 "How long to run before measuring (300ms; none with --requests or --trace)");
}

void add_report_flags(CLI::App& app, LoadArguments& a) {
  app.add_option("--json", a.json,
                 "Write the result as JSON to this file; - is the standard output");
  app.add_option("--csv", a.csv, "Write the time series to this file");
  app.add_option("--hgrm", a.hgrm, "Write the percentiles in HdrHistogram's format to this file");
  app.add_option("--plot", a.plot, "Draw both as a PNG, by gnuplot");
  app.add_option("--slo", a.slo, "What to keep, as p99=1ms,p99.9=5ms: exit code 3 if it was not");
  app.add_flag("--audit", a.is_audited,
               "Check every key: exit code 4 if more was granted in any interval than the limit "
               "allows");
  app.add_option(
      "--audit-log", a.audit_log,
      "Write what was granted to this file, for pail-bench audit over several processes");
  app.add_option("--bound", a.bound, "What --audit holds a --policy to: RATE,BURST, as 100/s,20");
  app.add_option("--audit-slack", a.audit_slack, "How old the server's reading of its clock may be")
      ->capture_default_str();
}

}  // namespace

void add_load_options(CLI::App& app, LoadArguments& arguments) {
  add_target_flags(app, arguments);
  add_work_flags(app, arguments);
  add_time_flags(app, arguments);
  add_report_flags(app, arguments);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_min() > 0 && option->get_type_size() != 0) {
      option->check(protocol::fault_in_flag);
    }
  }
}

}  // namespace pail::bench
