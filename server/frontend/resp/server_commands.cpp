// What clients and tools ask about the server: INFO, COMMAND, CONFIG.
#include <array>
#include <utility>

#include "server/frontend/resp/redis_version.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using resp::is_word;
using resp::Writer;

namespace {

constexpr std::size_t kMaxInfoBytes = 2 * 1024;

// What programs look up before they start; true of this server.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSettings = {
    {{"appendonly", "no"},
     {"databases", "1"},
     {"maxmemory", "0"},
     {"maxmemory-policy", "noeviction"},
     {"save", ""},
     {"timeout", "0"}}};

}  // namespace

// 0 where there is no such number.
std::uint64_t Resp::stat(std::string_view name) const noexcept {
  if (services_.stats == nullptr) return 0;
  for (std::size_t i = 0; i < services_.stats->stat_count(); ++i) {
    const protocol::Stat stat = services_.stats->stat(i, 0);
    if (stat.name == name) return stat.value;
  }
  return 0;
}

void Resp::info(Words arguments, Writer& out) noexcept {
  if (!may_be_long(out)) return;
  std::array<std::byte, kMaxInfoBytes> buffer;
  Writer text(buffer, false);
  const auto is_wanted = [&](std::string_view section) {
    if (arguments.empty()) return true;
    for (const std::string_view word : arguments) {
      if (is_word(word, section) || is_word(word, "all") || is_word(word, "default") ||
          is_word(word, "everything")) {
        return true;
      }
    }
    return false;
  };
  const auto line = [&](std::string_view words) {
    text.raw(words);
    text.line_end();
  };
  const auto number = [&](std::string_view name, std::uint64_t value) {
    text.raw(name);
    text.raw(":");
    text.decimal(value);
    text.line_end();
  };
  if (is_wanted("server")) {
    line("# Server");
    text.raw("redis_version:");
    line(resp::kRedisVersion);
    line("redis_mode:standalone");
    line("server_name:pail");
    number("uptime_in_seconds", stat("uptime_ms") / 1000);
    number("uptime_in_days", stat("uptime_ms") / 86'400'000);
    text.line_end();
  }
  if (is_wanted("clients")) {
    line("# Clients");
    number("connected_clients", stat("connections"));
    text.line_end();
  }
  if (is_wanted("memory")) {
    line("# Memory");
    number("used_memory", stat("resident_bytes"));
    number("used_memory_rss", stat("resident_bytes"));
    line("maxmemory_policy:noeviction");
    text.line_end();
  }
  if (is_wanted("persistence")) {
    line("# Persistence");
    line("loading:0");
    text.line_end();
  }
  if (is_wanted("stats")) {
    line("# Stats");
    number("total_connections_received", stat("accepted"));
    number("total_commands_processed", stat("resp_commands"));
    text.line_end();
  }
  if (is_wanted("replication")) {
    line("# Replication");
    line("role:master");
    line("connected_slaves:0");
    text.line_end();
  }
  if (is_wanted("keyspace")) {
    line("# Keyspace");
    // Limits and counters alike; each ends by itself.
    if (const std::uint64_t keys = stat("keys"); keys != 0) {
      text.raw("db0:keys=");
      text.decimal(keys);
      text.raw(",expires=");
      text.decimal(keys);
      line(",avg_ttl=0");
    }
  }
  out.is_resp3() ? out.verbatim(text.text()) : out.bulk(text.text());
}

void Resp::config(Words arguments, Writer& out) noexcept {
  if (!is_word(arguments[0], "get") || arguments.size() < 2) {
    return refuse(out, "ERR only CONFIG GET name: paild is configured by its command line");
  }
  if (!may_be_long(out)) return;
  const auto is_asked = [&](std::string_view name) {
    for (const std::string_view word : arguments.subspan(1)) {
      if (is_word(word, name) || word == "*") return true;
    }
    return false;
  };
  std::size_t count = 0;
  for (const auto& [name, value] : kSettings) count += is_asked(name) ? 1U : 0U;
  out.map(count);
  for (const auto& [name, value] : kSettings) {
    if (!is_asked(name)) continue;
    out.bulk(name);
    out.bulk(value);
  }
}

namespace {

// As COMMAND tells it: name, arity (negative: at least), flags, places of the first and the last
// key, step.
void describe(const resp::CommandSpec& spec, Writer& out) noexcept {
  const auto words = static_cast<std::int64_t>(spec.least_words);
  out.array(6);
  out.bulk(spec.name);
  out.integer(spec.least_words == spec.most_words ? words : -words);
  out.array(1);
  out.simple(spec.is_write ? "write" : "readonly");
  out.integer(spec.first_key);
  out.integer(spec.first_key);
  out.integer(spec.first_key == 0 ? 0 : 1);
}

}  // namespace

void Resp::command(Words arguments, Writer& out) noexcept {
  if (!may_be_long(out)) return;
  const auto all = resp::all_commands();
  if (arguments.empty()) {
    out.array(all.size());
    for (const resp::CommandSpec& spec : all) describe(spec, out);
  } else if (is_word(arguments[0], "count")) {
    out.integer(static_cast<std::int64_t>(all.size()));
  } else if (is_word(arguments[0], "docs")) {
    out.map(0);
  } else if (is_word(arguments[0], "list")) {
    out.array(all.size());
    for (const resp::CommandSpec& spec : all) out.bulk(spec.name);
  } else if (is_word(arguments[0], "info")) {
    out.array(arguments.size() - 1);
    for (const std::string_view name : arguments.subspan(1)) {
      const resp::CommandSpec* const spec = resp::find_command(name);
      spec != nullptr ? describe(*spec, out) : out.null();
    }
  } else {
    refuse(out, "ERR unknown subcommand of COMMAND: COUNT, DOCS, INFO and LIST there are");
  }
}

}  // namespace pail::frontend
