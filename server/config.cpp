#include "server/config.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "protocol/limit_text.hpp"
#include "server/cpus.hpp"
#include "server/limit_flags.hpp"
#include "server/memory.hpp"
#include "server/policy/policy_text.hpp"
#include "server/policy/write.hpp"
#include "server/settings.hpp"

namespace pail::server {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint16_t kDefaultRespPort = 7246;
constexpr std::size_t kMaxTableBytes = std::size_t{1} << 46;

// The flags as they were written.
struct Flags {
  std::string file;
  bool is_check = false;
  std::vector<std::string> listen;
  std::vector<std::string> resp;
  unsigned shards = 0;
  std::size_t memory_bytes = default_table_bytes();
  std::string on_full = "refuse";
  std::uint32_t counter_life_s =
      static_cast<std::uint32_t>(Config{}.counter_life_ns / kNsPerSecond);
  std::vector<std::string> policies;
  std::string unknown_policy;  // empty: what the file says
  bool insecure = false;
  std::string token_file;
  std::string congestion;
  std::string ready_file;
  std::string io = "auto";
  bool pin = false;
  LimitFlags limits;
  std::string log_format = "text";
  std::string log_level = "info";
};

tl::unexpected<ConfigExit> wrong(std::string text) {
  return tl::unexpected(ConfigExit{2, "paild: " + std::move(text) + "\n"});
}

// `option` is how the addresses were given.
tl::expected<std::vector<protocol::Address>, ConfigExit> read_addresses(
    std::string_view option, const std::vector<std::string>& texts, const Flags& flags) {
  if (texts.size() > kMaxListeners)
    return wrong(fmt::format("{}: {} at most", option, kMaxListeners));
  std::vector<protocol::Address> addresses;
  for (const std::string& text : texts) {
    auto address = protocol::parse_address(text);
    if (!address) return wrong(fmt::format("{} {}: {}", option, text, address.error()));
    if (!address->is_loopback && !flags.insecure && flags.token_file.empty()) {
      return wrong(fmt::format(
          "{} {}: this address can be reached from other machines, and anybody who reaches it may "
          "spend budgets. Listen on 127.0.0.1 or unix:/path, give --token-file FILE, or "
          "--insecure if the network itself keeps strangers out.",
          option, text));
    }
    addresses.push_back(std::move(*address));
  }
  return addresses;
}

tl::expected<void, ConfigExit> read_listen(const Flags& flags, Config& config) {
  std::vector<std::string> native = flags.listen;
  if (native.empty()) native.push_back(fmt::format("127.0.0.1:{}", protocol::kDefaultPort));
  std::vector<std::string> resp = flags.resp;
  if (resp.empty()) {
    resp.push_back(fmt::format("127.0.0.1:{}", kDefaultRespPort));
    // Whoever runs several servers gives each its --listen, and the first one has the port.
    config.is_resp_by_default = !flags.listen.empty();
  }
  if (resp.size() == 1 && resp.front() == "none") resp.clear();
  auto listen = read_addresses("--listen", native, flags);
  if (!listen) return tl::unexpected(listen.error());
  config.listen = std::move(*listen);
  auto resp_addresses = read_addresses("--resp", resp, flags);
  if (!resp_addresses) return tl::unexpected(resp_addresses.error());
  config.resp = std::move(*resp_addresses);
  return {};
}

tl::expected<void, ConfigExit> read_tokens(const Flags& flags, Config& config) {
  config.token_file = flags.token_file;
  if (flags.token_file.empty()) return {};
  auto tokens = read_token_file(flags.token_file);
  if (!tokens) return wrong("--token-file " + tokens.error());
  config.tokens = std::move(*tokens);
  return {};
}

tl::expected<void, ConfigExit> read_policies(const Flags& flags, const policy::File& file,
                                             Config& config) {
  for (const std::string& text : flags.policies) {
    const auto spec = policy::parse_policy_text(text);
    if (!spec) return wrong(fmt::format("--policy {}: {}", text, spec.error()));
    config.policies.push_back(*spec);
    config.flag_definitions.push_back(policy::definition_of(*spec));
  }
  if (const std::string fault = engine::check_policies(config.policies); !fault.empty()) {
    return wrong("--policy: " + fault);
  }
  config.unknown = file.unknown;
  config.is_unknown_of_flag = !flags.unknown_policy.empty();
  if (config.is_unknown_of_flag) {
    auto unknown = policy::parse_unknown(flags.unknown_policy);
    if (!unknown) return wrong("--unknown-policy: " + unknown.error());
    config.unknown = std::move(*unknown);
  }
  config.definitions = policy::layered(file.policies, config.flag_definitions);
  auto list = policy::to_list(config.definitions, std::time(nullptr));
  if (!list) return wrong(policy::format(flags.file, list.error()));
  config.policies = std::move(list->policies);
  config.overrides = std::move(list->overrides);
  const std::string fault =
      engine::check_policies(config.policies, config.overrides, policy::to_engine(config.unknown));
  if (!fault.empty()) return wrong(flags.file.empty() ? fault : flags.file + ": " + fault);
  return {};
}

// For --check-config.
std::string describe(const Config& config) {
  std::string text =
      policy::write_unknown(config.unknown) + policy::write_policies(config.definitions);
  for (const engine::PolicySpec& spec : config.policies) {
    if (!policy::is_bucket(spec.algorithm)) continue;
    if (const std::string warning = engine::warn_rate(spec.rate); !warning.empty()) {
      text += fmt::format("# policy \"{}\": {}\n", spec.name, warning);
    }
  }
  return text + fmt::format("# {}: no mistakes; {} policies, their tiers included\n", config.file,
                            config.policies.size());
}

LogLevel log_level_of(const std::string& text) {
  return text == "debug"     ? LogLevel::debug
         : text == "warning" ? LogLevel::warning
         : text == "error"   ? LogLevel::error
                             : LogLevel::info;
}

tl::expected<Config, ConfigExit> to_config(const Flags& flags, const policy::File& file) {
  Config config;
  config.file = flags.file;
  config.shards = flags.shards != 0 ? flags.shards : std::min(usable_cpus(), kMaxShards);
  config.memory_bytes = flags.memory_bytes;
  config.on_full = flags.on_full == "admit" ? engine::OnFull::admit : engine::OnFull::refuse;
  config.counter_life_ns = flags.counter_life_s * kNsPerSecond;
  config.is_insecure = flags.insecure;
  config.congestion_control = flags.congestion;
  config.ready_file = flags.ready_file;
  if (flags.pin) config.pinned = allowed_cpus();
  config.io = flags.io == "uring"   ? IoChoice::uring
              : flags.io == "epoll" ? IoChoice::epoll
                                    : IoChoice::automatic;
  config.log.format = flags.log_format == "json" ? LogFormat::json : LogFormat::text;
  config.log.level = log_level_of(flags.log_level);
  auto limits = to_limits(flags.limits, config.shards);
  if (!limits) return wrong(limits.error());
  config.limits = *limits;
  config.max_connections = flags.limits.max_connections;
  if (auto result = read_listen(flags, config); !result) return tl::unexpected(result.error());
  if (auto result = read_tokens(flags, config); !result) return tl::unexpected(result.error());
  if (auto result = read_policies(flags, file, config); !result) {
    return tl::unexpected(result.error());
  }
  return config;
}

void add_flags(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", "paild " PAIL_VERSION);
  app.footer(
      "A flag may stand in the environment, too (--max-connections as PAIL_MAX_CONNECTIONS), or in "
      "[server] of the file (as max_connections). The command line goes before the environment, "
      "and that before the file.");
  auto* const config = app.add_option("--config", flags.file,
                                      "A TOML file of policies and settings, read at start. See "
                                      "docs/operations.md")
                           ->type_name("FILE");
  app.add_option_function<std::string>(
         "--check-config",
         [&flags](const std::string& file) {
           flags.file = file;
           flags.is_check = true;
         },
         "Read such a file, print the policies that would be in force, or all of its mistakes, and "
         "end")
      ->excludes(config)
      ->type_name("FILE");
  app.add_option("--listen", flags.listen,
                 "Where to listen, repeatable: 127.0.0.1:7245 (the default), [::1]:7245, "
                 "unix:/run/pail.sock; port 0 takes a free one")
      ->type_name("ADDR");
  app.add_option("--resp", flags.resp,
                 "Where to speak RESP, the protocol of Redis clients, repeatable: 127.0.0.1:7246 "
                 "(the default), unix:/run/pail-resp.sock, ...; none: nowhere")
      ->type_name("ADDR");
  app.add_option("--shards", flags.shards,
                 "Threads that serve; default: the cores that this process may use")
      ->check(CLI::Range(1u, kMaxShards))
      ->type_name("N");
  app.add_option(
         "--memory", flags.memory_bytes,
         "The most that the table of keys may take, 16MiB or more; a million live keys need "
         "about 30 MB. Default: half of the machine's memory, or of the cgroup's")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(kMinTableBytes, kMaxTableBytes))
      ->type_name("SIZE");
  app.add_option("--on-full", flags.on_full,
                 "What becomes of a new key when the memory is full of live ones")
      ->check(CLI::IsMember({"refuse", "admit"}))
      ->capture_default_str();
  app.add_option("--counter-life", flags.counter_life_s,
                 "How long a counter of Redis clients lives that nobody gives an expiry")
      ->check(CLI::Range(std::uint32_t{1},
                         static_cast<std::uint32_t>(engine::kMaxCounterNs / kNsPerSecond)))
      ->capture_default_str()
      ->type_name("S");
  app.add_option("--policy", flags.policies, std::string(policy::kPolicyHelp))
      ->type_name("NAME=LIMIT")
      ->delimiter('\0');
  app.add_option("--unknown-policy", flags.unknown_policy,
                 "What becomes of requests for a policy that there is not: refuse (the default), "
                 "admit, default:NAME (as if they had named that one)")
      ->type_name("WHAT");
  app.add_option(
         "--token-file", flags.token_file,
         "Serve only who shows a token of this file, whose lines are: name token [admin]; read "
         "again on SIGHUP")
      ->type_name("FILE");
  app.add_flag("--insecure", flags.insecure,
               "Allow addresses that other machines can reach without tokens");
  app.add_option(
         "--tcp-congestion", flags.congestion,
         "TCP congestion control of all connections: cubic where the system's default is bbr, "
         "whose pacing slows loopback and short distances")
      ->type_name("NAME");
  app.add_option("--ready-file", flags.ready_file,
                 "Write a JSON file with the addresses once the server serves")
      ->type_name("PATH");
  app.add_option("--io", flags.io, "How to talk to the kernel")
      ->check(CLI::IsMember({"auto", "uring", "epoll"}))
      ->capture_default_str();
  add_limit_flags(app, flags.limits);
  app.add_flag("--pin", flags.pin,
               "Bind each shard to a core of its own, of those that this process may use");
  app.add_option("--log-format", flags.log_format, "How lines on the error stream look")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "The least that is worth a line")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_min() > 0 && option->get_type_size() != 0) {
      option->check(protocol::fault_in_flag);
    }
  }
}

}  // namespace

tl::expected<Config, ConfigExit> parse_command_line(int argc, const char* const* argv,
                                                    const Environment& environment) {
  CLI::App app{"paild: a rate-limit state server. It answers whether a caller has budget left.",
               "paild"};
  Flags flags;
  add_flags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return tl::unexpected(ConfigExit{0, app.help()});
  } catch (const CLI::CallForVersion& version) {
    return tl::unexpected(ConfigExit{0, std::string(version.what()) + "\n"});
  } catch (const CLI::ParseError& error) {
    return wrong(std::string(error.what()) + "\nSee paild --help.");
  }
  if (std::string fault = apply_environment(app, environment); !fault.empty()) return wrong(fault);
  policy::File file;
  if (!flags.file.empty()) {
    auto read = policy::read_file(flags.file);
    if (!read) return tl::unexpected(ConfigExit{2, read.error() + "\n"});
    file = std::move(*read);
    if (std::string fault = apply_settings(app, flags.file, file.settings); !fault.empty()) {
      return tl::unexpected(ConfigExit{2, fault + "\n"});
    }
  }
  auto config = to_config(flags, file);
  if (!config || !flags.is_check) return config;
  return tl::unexpected(ConfigExit{0, describe(*config)});
}

tl::expected<Config, ConfigExit> parse_command_line(int argc, const char* const* argv) {
  return parse_command_line(argc, argv,
                            [](const std::string& name) { return std::getenv(name.c_str()); });
}

}  // namespace pail::server
