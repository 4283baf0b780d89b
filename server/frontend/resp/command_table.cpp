#include "server/frontend/resp/command_table.hpp"

#include <algorithm>
#include <array>

#include "server/frontend/resp/command_reader.hpp"

namespace pail::frontend::resp {
namespace {

constexpr std::uint8_t kAnyWords = kMaxArguments;

constexpr auto kCommands = std::to_array<CommandSpec>({
    {"auth", CommandId::auth, 2, 3, false, 0, "[user] token"},
    {"cl.throttle", CommandId::throttle, 5, 6, true, 1,
     "key max_burst count_per_period period_s [quantity]"},
    {"client", CommandId::client, 2, kAnyWords, false, 0, "subcommand ..."},
    {"command", CommandId::command, 1, kAnyWords},
    {"config", CommandId::config, 2, kAnyWords, false, 0, "GET name ..."},
    {"decr", CommandId::decr, 2, 2, true, 1, "key"},
    {"decrby", CommandId::decrby, 3, 3, true, 1, "key amount"},
    {"del", CommandId::del, 2, kAnyWords, true, 1, "key ..."},
    {"discard", CommandId::transaction, 1, kAnyWords},
    {"echo", CommandId::echo, 2, 2, false, 0, "message"},
    {"eval", CommandId::script, 1, kAnyWords},
    {"eval_ro", CommandId::script, 1, kAnyWords},
    {"evalsha", CommandId::script, 1, kAnyWords},
    {"evalsha_ro", CommandId::script, 1, kAnyWords},
    {"exec", CommandId::transaction, 1, kAnyWords},
    {"exists", CommandId::exists, 2, kAnyWords, false, 1, "key ..."},
    {"expire", CommandId::expire, 3, 4, true, 1, "key seconds [NX|XX|GT|LT]"},
    {"fcall", CommandId::script, 1, kAnyWords},
    {"fcall_ro", CommandId::script, 1, kAnyWords},
    {"function", CommandId::script, 1, kAnyWords},
    {"get", CommandId::get, 2, 2, false, 1, "key"},
    {"hello", CommandId::hello, 1, 8, false, 0, "[2|3] [AUTH user token] [SETNAME name]"},
    {"incr", CommandId::incr, 2, 2, true, 1, "key"},
    {"incrby", CommandId::incrby, 3, 3, true, 1, "key amount"},
    {"increx", CommandId::increx, 2, 12, true, 1,
     "key [BYINT n] [LBOUND n] [UBOUND n] [EX s|PX ms] [ENX]"},
    {"info", CommandId::info, 1, kAnyWords},
    {"multi", CommandId::transaction, 1, kAnyWords},
    {"pail.acquire", CommandId::acquire, 3, 4, true, 2, "policy key [cost]"},
    {"pail.peek", CommandId::peek, 3, 4, false, 2, "policy key [cost]"},
    {"pail.release", CommandId::release, 4, 5, true, 2, "policy key grant [cost]"},
    {"pail.renew", CommandId::renew, 4, 5, true, 2, "policy key grant [cost]"},
    {"pail.reset", CommandId::reset_key, 2, 3, true, 1, "[policy] key"},
    {"pail.settle", CommandId::settle, 5, 5, true, 2, "policy key grant cost"},
    {"pail.take", CommandId::take, 3, 5, true, 2, "policy key [cost [GRANT]]"},
    {"pail.takeall", CommandId::take_all, 4, kAnyWords, true, 2,
     "policy key cost [policy key cost ...]"},
    {"pexpire", CommandId::pexpire, 3, 4, true, 1, "key milliseconds [NX|XX|GT|LT]"},
    {"ping", CommandId::ping, 1, 2, false, 0, "[message]"},
    {"pttl", CommandId::pttl, 2, 2, false, 1, "key"},
    {"quit", CommandId::quit, 1, kAnyWords},
    {"readonly", CommandId::readonly, 1, 1},
    {"readwrite", CommandId::readonly, 1, 1},
    {"reset", CommandId::reset_connection, 1, 1},
    {"script", CommandId::script, 1, kAnyWords},
    {"select", CommandId::select, 2, 2, false, 0, "0"},
    {"set", CommandId::set, 3, 6, true, 1, "key n [EX s|PX ms|KEEPTTL] [NX|XX]"},
    {"ttl", CommandId::ttl, 2, 2, false, 1, "key"},
    {"unlink", CommandId::del, 2, kAnyWords, true, 1, "key ..."},
    {"unwatch", CommandId::transaction, 1, kAnyWords},
    {"watch", CommandId::transaction, 1, kAnyWords},
});
static_assert(std::ranges::is_sorted(kCommands, {}, &CommandSpec::name));

constexpr std::size_t kMaxNameBytes = 16;
static_assert(std::ranges::all_of(kCommands, [](const CommandSpec& spec) {
  return spec.name.size() <= kMaxNameBytes;
}));

constexpr const CommandSpec* by_name(std::string_view name) {
  return std::ranges::lower_bound(kCommands, name, {}, &CommandSpec::name);
}
constexpr const CommandSpec* kThrottle = by_name("cl.throttle");
static_assert(kThrottle->id == CommandId::throttle);

}  // namespace

const CommandSpec* find_command(std::string_view name) noexcept {
  if (is_word(name, kThrottle->name)) return kThrottle;  // what there is most of
  if (name.size() > kMaxNameBytes) return nullptr;
  std::array<char, kMaxNameBytes> lowered;
  std::ranges::transform(name, lowered.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  const std::string_view wanted(lowered.data(), name.size());
  const CommandSpec* const found = by_name(wanted);
  return found != kCommands.end() && found->name == wanted ? found : nullptr;
}

std::span<const CommandSpec> all_commands() noexcept {
  return kCommands;
}

}  // namespace pail::frontend::resp
