// The command `pail`: one question to a server, from a shell. Exit status 0 admitted, 1 refused, 2
// else.
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include <pail/client.hpp>
#include <pail/token.hpp>
#include "client/command/arguments.hpp"
#include "client/command/report.hpp"

namespace {

using pail::command::Action;
using pail::command::Arguments;

// Human words of a failure go to the error stream, JSON to the output, where a script looks for it.
int answer(const Arguments& arguments, const pail::Error& error) {
  if (arguments.json) {
    std::puts(pail::command::json_of(error).c_str());
  } else {
    std::fprintf(stderr, "pail: %s\n", error.text.c_str());
  }
  return pail::command::kExitError;
}

int answer(const Arguments& arguments, const pail::Result<pail::Decision>& decision) {
  if (!decision) return answer(arguments, decision.error());
  const bool is_peek = arguments.action == Action::peek;
  const std::string line = arguments.json ? pail::command::json_of(*decision)
                                          : pail::command::text_of(*decision, is_peek);
  std::puts(line.c_str());
  return decision->admitted() ? pail::command::kExitAdmitted : pail::command::kExitRefused;
}

int answer(const Arguments& arguments, const pail::Result<void>& done) {
  if (!done) return answer(arguments, done.error());
  std::puts(arguments.json ? pail::command::json_of_reset().c_str()
                           : "reset: the budget is full again");
  return pail::command::kExitAdmitted;
}

int answer(const Arguments& arguments, const pail::Result<std::chrono::nanoseconds>& round_trip) {
  if (!round_trip) return answer(arguments, round_trip.error());
  const std::string line =
      arguments.json ? pail::command::json_of_ping(*round_trip)
                     : arguments.server + " answered in " + pail::command::text_of(*round_trip);
  std::puts(line.c_str());
  return pail::command::kExitAdmitted;
}

// Once, or until somebody interrupts or the server goes.
int show_stats(const Arguments& arguments, pail::Client& client) {
  std::optional<pail::ServerStats> before;
  auto read_at = std::chrono::steady_clock::now();
  for (;;) {
    auto stats = client.stats(arguments.shard);
    const auto now = std::chrono::steady_clock::now();
    if (!stats) return answer(arguments, stats.error());
    // For administrators; others see the server's own numbers.
    const auto policies = client.policy(std::vector<std::string>{"stats"});
    std::string text =
        arguments.json ? pail::command::json_of(*stats, policies ? &*policies : nullptr) + "\n"
                       : pail::command::text_of(*stats, before ? &*before : nullptr, now - read_at);
    if (policies && !arguments.json) text += pail::command::text_of_policies(*policies);
    std::fputs((arguments.watch.count() != 0 && !arguments.json ? text + "\n" : text).c_str(),
               stdout);
    std::fflush(stdout);
    if (arguments.watch.count() == 0) return pail::command::kExitAdmitted;
    before = std::move(*stats);
    read_at = now;
    std::this_thread::sleep_for(arguments.watch);
  }
}

pail::Result<pail::Limit> limit_of(const Arguments& arguments) {
  if (!arguments.policy.empty()) return pail::Limit::policy(arguments.policy);
  auto limit = pail::Limit::parse(arguments.rate, arguments.burst);
  if (limit && arguments.burst == 0) {
    return pail::Limit::rate(limit->count(), limit->period(), limit->count());
  }
  return limit;
}

int take_all(const Arguments& arguments, pail::Client& client, const pail::CallOptions& call) {
  std::vector<pail::Layer> layers;
  for (const std::string& text : arguments.layers) {
    const auto layer = pail::command::parse_layer(text);
    if (!layer) return answer(arguments, layer.error());
    layers.push_back({pail::Limit::policy(layer->policy),
                      std::string_view(text).substr(text.size() - layer->key.size()), layer->cost});
  }
  const auto decision = client.take_all(layers, call);
  if (!decision) return answer(arguments, decision.error());
  const std::string line = arguments.json ? pail::command::json_of(*decision)
                                          : pail::command::text_of(*decision, arguments.layers);
  std::puts(line.c_str());
  return decision->admitted() ? pail::command::kExitAdmitted : pail::command::kExitRefused;
}

int settle(const Arguments& arguments, pail::Client& client, const pail::Limit& policy,
           pail::CallOptions call) {
  call.settle_later = true;
  const auto estimate = client.take(policy, arguments.key, call);
  if (!estimate || !estimate->admitted()) return answer(arguments, estimate);
  return answer(arguments, client.settle(policy, arguments.key, estimate->grant, arguments.actual));
}

int release(const Arguments& arguments, pail::Client& client, const pail::Limit& policy,
            const pail::CallOptions& call) {
  const auto decision = client.release(policy, arguments.key, arguments.grant, call);
  if (!decision || arguments.json) {
    const int status = answer(arguments, decision);
    return decision && decision->granted == 0 ? pail::command::kExitRefused : status;
  }
  std::printf("%u came back%s; %u of %u left\n", decision->granted,
              decision->granted == 0 ? ": they had lapsed, or were never given" : "",
              decision->remaining, decision->limit);
  return decision->granted == 0 ? pail::command::kExitRefused : pail::command::kExitAdmitted;
}

int show_policy(const Arguments& arguments, pail::Client& client) {
  const auto result = client.policy(arguments.words);
  if (!result) return answer(arguments, result.error());
  std::fputs(
      arguments.json ? (pail::command::json_of(*result) + "\n").c_str() : result->text.c_str(),
      stdout);
  return pail::command::kExitAdmitted;
}

// The policy as the server has it, and what it would answer.
int explain(const Arguments& arguments, pail::Client& client, const pail::Limit& limit,
            const pail::CallOptions& call) {
  const std::vector<std::string> words{"explain", arguments.policy, arguments.key};
  const auto result = client.policy(words);
  if (!result) return answer(arguments, result.error());
  if (!arguments.json) std::fputs(result->text.c_str(), stdout);
  return answer(arguments, client.peek(limit, arguments.key, call));
}

int run(const Arguments& arguments) {
  pail::Result<pail::Limit> limit = pail::Limit::policy("");
  const bool needs_limit = arguments.action != Action::ping && arguments.action != Action::stats &&
                           arguments.action != Action::take_all &&
                           arguments.action != Action::policy;
  if (needs_limit) limit = limit_of(arguments);
  if (!limit) return answer(arguments, limit.error());

  pail::ClientOptions options;
  options.deadline = options.connect_timeout = arguments.timeout;
  options.name = "pail";
  options.on_failure = pail::OnFailure::report;
  options.token = arguments.token;
  if (!arguments.token_file.empty()) {
    auto token = pail::token_from_file(arguments.token_file);
    if (!token) return answer(arguments, token.error());
    options.token = std::move(*token);
  }
  auto client = pail::Client::connect(arguments.server, options);
  if (!client) return answer(arguments, client.error());

  pail::CallOptions call;
  call.cost = arguments.cost;
  call.priority = static_cast<std::uint8_t>(arguments.priority);
  call.partial = arguments.partial;
  switch (arguments.action) {
    case Action::take:
      return answer(arguments, client->take(*limit, arguments.key, call));
    case Action::peek:
      return answer(arguments, client->peek(*limit, arguments.key, call));
    case Action::reset:
      return answer(arguments, client->reset(*limit, arguments.key, call));
    case Action::ping:
      return answer(arguments, client->ping(call));
    case Action::stats:
      return show_stats(arguments, *client);
    case Action::take_all:
      return take_all(arguments, *client, call);
    case Action::settle:
      return settle(arguments, *client, *limit, call);
    case Action::acquire:
      return answer(arguments, client->acquire(*limit, arguments.key, call));
    case Action::renew:
      return answer(arguments, client->renew(*limit, arguments.key, arguments.grant, call));
    case Action::release:
      return release(arguments, *client, *limit, call);
    case Action::policy:
      return show_policy(arguments, *client);
    case Action::explain: {
      pail::CallOptions peek = call;
      peek.cost = 1;
      Arguments as_peek = arguments;
      as_peek.action = Action::peek;
      return explain(as_peek, *client, *limit, peek);
    }
  }
  return pail::command::kExitError;
}

}  // namespace

int main(int count, char** words) {
  try {
    const auto parsed = pail::command::parse_arguments(count, words);
    if (const int* status = std::get_if<int>(&parsed)) return *status;
    return run(std::get<Arguments>(parsed));
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "pail: %s\n", problem.what());
    return pail::command::kExitError;
  }
}
