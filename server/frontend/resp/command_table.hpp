// Which commands there are, how many words each takes, and what COMMAND tells about them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace pail::frontend::resp {

enum class CommandId : std::uint8_t {
  // Decided in groups.
  throttle,
  take,
  peek,
  // Of policies, one by one.
  take_all,
  acquire,
  renew,
  release,
  settle,
  reset_key,
  // Counters.
  incr,
  decr,
  incrby,
  decrby,
  increx,
  expire,
  pexpire,
  ttl,
  pttl,
  get,
  set,
  del,
  exists,
  // Connections and the server.
  auth,
  client,
  command,
  config,
  echo,
  hello,
  info,
  ping,
  quit,
  readonly,
  reset_connection,
  select,
  // What this server does not do, with an answer that says what to do instead.
  script,
  transaction,
};

struct CommandSpec {
  std::string_view name;  // in lower case, as COMMAND tells it
  CommandId id;
  std::uint8_t least_words;  // its name included
  std::uint8_t most_words;
  bool is_write = false;
  std::uint8_t first_key = 0;  // place of the first key; 0: it has none
  // How it is written, for who gets the number of words wrong.
  std::string_view usage = {};
};

[[nodiscard]] constexpr bool is_in_groups(CommandId id) noexcept {
  return id <= CommandId::peek;
}
[[nodiscard]] constexpr bool is_of_policy(CommandId id) noexcept {
  return id >= CommandId::take_all && id <= CommandId::reset_key;
}
[[nodiscard]] constexpr bool is_of_counter(CommandId id) noexcept {
  return id >= CommandId::incr && id <= CommandId::exists;
}

// Nothing: there is no such command. Names are the same in any case.
[[nodiscard]] const CommandSpec* find_command(std::string_view name) noexcept;

// All of them, by name.
[[nodiscard]] std::span<const CommandSpec> all_commands() noexcept;

// Whether the word is this one, which is given in lower case.
[[nodiscard]] constexpr bool is_word(std::string_view word, std::string_view lower) noexcept {
  if (word.size() != lower.size()) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != lower[i]) return false;
  }
  return true;
}

}  // namespace pail::frontend::resp
