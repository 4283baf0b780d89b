#include "bench/load_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <cstdlib>
#include <pail/token.hpp>
#include <random>
#include <utility>

#include "bench/command.hpp"
#include "protocol/limit_text.hpp"
#include "server/engine/rate.hpp"

namespace pail::bench {
namespace {

template <class T>
T need(tl::expected<T, std::string> value, std::string_view flag) {
  if (!value) throw BadArguments(fmt::format("{}: {}", flag, value.error()));
  return std::move(*value);
}

std::uint64_t duration_of(const std::string& text, std::string_view flag) {
  if (text == "0" || text == "0s") return 0;
  return need(protocol::parse_duration_ns(text), flag);
}

Target target_of(const LoadArguments& arguments) {
  Target target;
  if (arguments.target == "echo") target.kind = TargetKind::echo;
  if (arguments.target == "redis") target.kind = TargetKind::redis;
  if (arguments.target == "memcached") target.kind = TargetKind::memcached;
  if (arguments.method == "incr") target.method = RedisMethod::incr;
  if (arguments.method == "throttle") target.method = RedisMethod::throttle;
  return target;
}

void read_token(const LoadArguments& arguments, LoadOptions& options) {
  if (!arguments.token_file.empty()) {
    auto token = pail::token_from_file(arguments.token_file);
    if (!token) throw BadArguments("--token-file: " + token.error().text);
    options.token = std::move(*token);
  } else if (const char* token = std::getenv("PAIL_TOKEN"); token != nullptr) {
    options.token = token;
  }
  if (options.token.size() > protocol::kMaxTokenBytes) {
    throw BadArguments("PAIL_TOKEN: a token has 256 bytes at most");
  }
}

void read_server(const LoadArguments& arguments, LoadOptions& options) {
  options.target = target_of(arguments);
  std::string text = arguments.server;
  if (text.empty()) {
    switch (options.target.kind) {
      case TargetKind::pail:
        text = "127.0.0.1";
        break;
      case TargetKind::redis:
        text = "127.0.0.1:6379";
        break;
      case TargetKind::memcached:
        text = "127.0.0.1:11211";
        break;
      case TargetKind::echo:  // started by us
        break;
    }
  }
  if (!text.empty()) options.server = need(protocol::parse_address(text), "--server");
  if (arguments.target_pin >= 0 && (arguments.target != "echo" || !arguments.server.empty())) {
    throw BadArguments("--target-pin: only the server of --target echo without --server is ours");
  }
}

void read_limit(const LoadArguments& arguments, LoadOptions& options) {
  const bool has_inline = !arguments.rate.empty() || !arguments.burst.empty();
  if (!options.policy.empty()) {
    if (has_inline)
      throw BadArguments("--policy names a limit of the server: no --rate or --burst");
    if (!options.target.is_native()) throw BadArguments("--policy: only Pail has policies");
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
  const bool has_seconds = options.limit.period_ns % 1'000'000'000 == 0;
  if (!options.target.is_native() && options.target.method != RedisMethod::lua && !has_seconds) {
    throw BadArguments("--rate: this target counts in whole seconds, as in 100/s or 10/min");
  }
}

void read_keys(const LoadArguments& arguments, LoadOptions& options) {
  read_token(arguments, options);
  options.distribution = need(parse_distribution(arguments.distribution), "--dist");
  if (options.keys > distinct_keys(options.key_size_bytes)) {
    throw BadArguments(
        fmt::format("--keys: {} different keys do not fit into {} hexadecimal digits", options.keys,
                    digits_in(options.key_size_bytes)));
  }
  options.mix = need(parse_mix(arguments.mix), "--mix");
  if (!options.target.is_native() && !options.mix.is_takes_only()) {
    throw BadArguments("--mix: only Pail has other operations than take");
  }
  const bool has_layers = options.mix.has(protocol::Op::take_all);
  if ((has_layers || options.mix.has(protocol::Op::lease)) && options.policy.empty()) {
    throw BadArguments("--mix: leases and layers are by --policy, not by --rate");
  }
  if (has_layers != !options.layers.empty()) {
    throw BadArguments(has_layers ? "--mix: layers want a second policy, by --layer"
                                  : "--layer: --mix has no layers");
  }
  if (options.layers.size() >= protocol::kMaxLayers) {
    throw BadArguments(fmt::format("--layer: at most {}, with --policy {} layers in all",
                                   protocol::kMaxLayers - 1, protocol::kMaxLayers));
  }
  for (auto layer = options.layers.begin(); layer != options.layers.end(); ++layer) {
    if (*layer == options.policy || std::find(options.layers.begin(), layer, *layer) != layer) {
      throw BadArguments(fmt::format("--layer: {} is there twice", *layer));
    }
  }
}

void read_arrival(const LoadArguments& arguments, LoadOptions& options) {
  if (!arguments.arrival.empty()) {
    options.arrival = need(parse_arrival(arguments.arrival), "--arrival");
  }
  if (arguments.trace.empty()) return;
  if (!arguments.arrival.empty()) {
    throw BadArguments("--trace: the trace says when requests are due: no --arrival");
  }
  if (!options.target.is_native()) throw BadArguments("--trace: only with --target pail or echo");
  options.trace = std::make_shared<const Trace>(need(read_trace_file(arguments.trace), "--trace"));
  options.arrival.kind = Arrival::Kind::trace;
}

void read_times(const LoadArguments& arguments, LoadOptions& options) {
  options.requests = arguments.requests;
  options.duration_ns = duration_of(arguments.duration, "--duration");
  if (options.duration_ns == 0) throw BadArguments("--duration: at least 1ns");
  // To its end, unless it is told otherwise.
  if (options.trace && !arguments.has_duration) options.duration_ns = std::uint64_t{1} << 61;
  // A number of requests is usually a matter of counting; a warm-up would blur it.
  const std::string default_warmup = options.requests || options.trace ? "0" : "300ms";
  options.warmup_ns =
      duration_of(arguments.warmup.empty() ? default_warmup : arguments.warmup, "--warmup");
  options.ramp_ns = duration_of(arguments.ramp, "--ramp");
}

void check_threads(const LoadOptions& options) {
  if (options.threads > options.connections) {
    throw BadArguments("--threads: every thread needs a connection of its own");
  }
  if (options.connections > std::uint64_t{kMaxConnections} * options.threads) {
    throw BadArguments(fmt::format("--connections: at most {} a thread", kMaxConnections));
  }
}

std::optional<AuditBound> read_audit(const LoadArguments& arguments, const LoadOptions& options) {
  if (!arguments.is_audited && arguments.audit_log.empty()) {
    if (arguments.bound.empty()) return std::nullopt;
    throw BadArguments("--bound: what --audit checks: it does nothing without it");
  }
  AuditBound bound;
  bound.slack_ns = duration_of(arguments.audit_slack, "--audit-slack");
  protocol::InlineLimit limit = options.limit;
  if (!arguments.bound.empty()) {
    limit = need(protocol::parse_policy("bound=" + arguments.bound), "--bound").limit;
  } else if (!options.policy.empty()) {
    throw BadArguments("--audit: with --policy say what it allows: --bound 100/s,20");
  }
  bound.period_ns = limit.period_ns;
  bound.count = limit.count;
  bound.burst = limit.burst;
  return bound;
}

}  // namespace

LoadPlan plan_load(const LoadArguments& arguments) {
  LoadPlan plan{arguments.options, {}, {}};
  LoadOptions& options = plan.options;
  read_server(arguments, options);
  read_limit(arguments, options);
  read_keys(arguments, options);
  read_arrival(arguments, options);
  read_times(arguments, options);
  check_threads(options);
  options.seed = arguments.seed ? *arguments.seed : std::random_device{}();
  plan.objectives = need(parse_objectives(arguments.slo), "--slo");
  plan.bound = read_audit(arguments, options);
  options.is_audited = plan.bound.has_value();
  return plan;
}

}  // namespace pail::bench
