#include "client/command/arguments.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "protocol/limit_text.hpp"

namespace pail::command {
namespace {

constexpr const char* kFooter =
    "Options for every action: --server, --token-file, --timeout-ms, --json; see pail --help.\n"
    "Exit status: 0 admitted (or done), 1 refused, 2 anything else.\n\n"
    "Examples:\n"
    "  pail take --rate 10/s --burst 20 partner-a\n"
    "  pail take --policy api --cost 5 --json partner-a\n"
    "  pail --server unix:/run/pail.sock ping\n"
    "  pail stats --watch 2";

void add_limit(CLI::App& command, Arguments& arguments) {
  auto* policy =
      command.add_option("--policy", arguments.policy, "A policy of the server, by name");
  auto* rate = command.add_option("--rate", arguments.rate,
                                  "A token bucket given here: count/period, such as 10/s, 100/min");
  auto* burst = command.add_option("--burst", arguments.burst,
                                   "Most tokens at once; default: the count of --rate");
  rate->excludes(policy);
  burst->needs(rate)->check(CLI::Range(std::uint32_t{1}, UINT32_MAX));
  command.add_option("KEY", arguments.key, "Whose budget: any text of 1 to 1024 bytes")->required();
  // Knowing only one of the two is the caller's commonest mistake, so the message names both.
  command.callback([&arguments] {
    if (arguments.policy.empty() && arguments.rate.empty()) {
      throw CLI::RequiredError("a limit is needed: --rate (and --burst), or --policy",
                               CLI::ExitCodes::RequiredError);
    }
  });
}

void add_cost(CLI::App& command, Arguments& arguments) {
  command.add_option("--cost", arguments.cost, "Tokens; default 1")
      ->check(CLI::Range(std::uint32_t{1}, UINT32_MAX));
  command.add_option("--priority", arguments.priority, "0 (lowest, default) to 3")
      ->check(CLI::Range(0u, 3u));
  command.add_flag("--partial", arguments.partial,
                   "Take what there is if it is less than the cost");
}

void add_stats(CLI::App& command, Arguments& arguments, double& watch_s) {
  command.add_option("--shard", arguments.shard, "The n-th only; default: all together");
  command
      .add_option("--watch", watch_s,
                  "Again every so many seconds, with what each number grew by, until interrupted")
      ->check(CLI::Range(0.1, 3600.0))
      ->check([](const std::string& text) {  // which is in every range
        return text.find_first_of("nN") == std::string::npos ? "" : std::string("not a number");
      })
      ->expected(0, 1)
      ->default_str("1")
      ->type_name("SECONDS");
}

// What is for policies only.
void add_named(CLI::App& command, Arguments& arguments, const char* cost) {
  command.add_option("--policy", arguments.policy, "A policy of the server, by name")->required();
  command.add_option("--cost", arguments.cost, cost)
      ->check(CLI::Range(std::uint32_t{1}, UINT32_MAX));
  command.add_option("KEY", arguments.key, "Whose budget: any text of 1 to 1024 bytes")->required();
}

CLI::App& add_command(CLI::App& app, Arguments& arguments, Action action, const char* name,
                      const char* what) {
  CLI::App& command = *app.add_subcommand(name, what);
  command.fallthrough();  // --server and --json may also stand behind the action
  command.parse_complete_callback([&arguments, action] { arguments.action = action; });
  return command;
}

// But for the key, which the library looks at.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_positional() && option->get_expected_min() > 0 &&
        option->get_type_size() != 0) {
      option->check(protocol::fault_in_flag);
    }
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_empty_values(*command);
}

}  // namespace

Parsed parse_arguments(int count, const char* const* words) {
  Arguments arguments;
  std::int64_t timeout_ms = arguments.timeout.count();
  double watch_s = 0;

  CLI::App app("Ask a Pail rate-limit server.", "pail");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", "pail " PAIL_VERSION);
  app.add_option("--server", arguments.server,
                 "127.0.0.1:7245 (default), [::1]:7245 or unix:/path");
  auto* token =
      app.add_option("--token", arguments.token,
                     "Where the server wants one; other users of this machine can see it, "
                     "so rather PAIL_TOKEN or --token-file");
  app.add_option("--token-file", arguments.token_file, "The file that holds the token")
      ->excludes(token);
  app.add_option("--timeout-ms", timeout_ms,
                 "Longest wait for the connection, and again for the answer; default 1000")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{3'600'000}));
  app.add_flag("--json", arguments.json, "Answer with one JSON object");

  auto& take = add_command(app, arguments, Action::take, "take", "Take tokens from a key's budget");
  auto& peek = add_command(app, arguments, Action::peek, "peek", "What a take would be answered");
  auto& reset =
      add_command(app, arguments, Action::reset, "reset", "Make a key's budget full again");
  add_command(app, arguments, Action::ping, "ping", "One round trip to the server");
  auto& stats = add_command(app, arguments, Action::stats, "stats", "What the server counts");
  add_stats(stats, arguments, watch_s);
  auto& take_all = add_command(app, arguments, Action::take_all, "take-all",
                               "Take from several policies, from all or from none");
  take_all
      .add_option("LAYER", arguments.layers,
                  "POLICY=KEY, or POLICY*COST=KEY: 1 to 8 of them, as in api=alice tenant*5=acme")
      ->required()
      ->expected(1, 8);
  take_all.add_option("--priority", arguments.priority, "0 (lowest, default) to 3")
      ->check(CLI::Range(0u, 3u));
  auto& settle = add_command(app, arguments, Action::settle, "settle",
                             "Take an estimate and correct it, on one connection");
  add_named(settle, arguments, "Tokens to take as an estimate; default 1");
  settle.add_option("--actual", arguments.actual, "What it turned out to be")->required();
  auto& acquire = add_command(app, arguments, Action::acquire, "acquire",
                              "Take permits of a concurrency policy; prints the grant");
  auto& renew = add_command(app, arguments, Action::renew, "renew",
                            "Keep permits for another ttl; prints the grant that they have now");
  auto& release =
      add_command(app, arguments, Action::release, "release", "Give permits back, once");
  for (CLI::App* command : {&acquire, &renew, &release}) {
    add_named(*command, arguments, "How many permits; default 1");
  }
  acquire.add_flag("--partial", arguments.partial,
                   "As many as there are, if that is fewer; renew and release as many");
  for (CLI::App* command : {&renew, &release}) {
    command->add_option("--grant", arguments.grant, "What acquire or renew printed")->required();
  }
  auto& policy =
      add_command(app, arguments, Action::policy, "policy",
                  "What the server's policies are, and how they change (for "
                  "administrators): list; show NAME; set NAME rate=200/s mode=shadow; set "
                  "NAME reset; override NAME KEY rate=500/s for=1h; override NAME KEY "
                  "clear; scale NAME 0.5 for=10min; reload; history; rollback VERSION; "
                  "export");
  policy.add_option("WORD", arguments.words, "As above")->required()->expected(1, 64);
  auto& explain = add_command(app, arguments, Action::explain, "explain",
                              "What would be decided for a key now, and why (for administrators)");
  explain.add_option("POLICY", arguments.policy, "A policy of the server, by name")->required();
  explain.add_option("KEY", arguments.key, "Whose budget")->required();
  for (CLI::App* command : {&settle, &acquire}) {
    command->add_option("--priority", arguments.priority, "0 (lowest, default) to 3")
        ->check(CLI::Range(0u, 3u));
  }
  for (CLI::App* command : {&take, &peek}) add_cost(*command, arguments);
  for (CLI::App* command : {&take, &peek, &reset}) add_limit(*command, arguments);
  for (CLI::App* command : {&renew, &release}) {
    command->get_option("--grant")->check(protocol::fault_in_whole_number);
  }
  settle.get_option("--actual")->check(protocol::fault_in_whole_number);
  stats.get_option("--shard")->check(protocol::fault_in_whole_number);
  refuse_empty_values(app);

  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? kExitAdmitted : kExitError;
  }
  arguments.timeout = std::chrono::milliseconds(timeout_ms);
  const char* const token_from_environment = std::getenv("PAIL_TOKEN");
  if (arguments.token.empty() && arguments.token_file.empty() &&
      token_from_environment != nullptr) {
    arguments.token = token_from_environment;
  }
  arguments.watch = std::chrono::milliseconds(static_cast<std::int64_t>(watch_s * 1000));
  return arguments;
}

}  // namespace pail::command
