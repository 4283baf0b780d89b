#include "server/frontend/resp/command_parser.hpp"

#include <cstring>

namespace pail::frontend::resp {
namespace {

constexpr std::string_view kTooBig = "a command is at most 16384 bytes, 1024 before AUTH";

constexpr Parsed whole(std::size_t size) noexcept {
  return {Parsed::State::whole, size};
}
constexpr Parsed wrong(std::string_view fault) noexcept {
  return {Parsed::State::wrong, 0, fault};
}
constexpr Parsed partial() noexcept {
  return {};
}

// A length, as it stands behind its `*` or `$`: "3\r\n". Five digits are more than any that is
// right.
constexpr std::size_t kMaxLengthDigits = 5;

struct Length {
  Parsed::State state = Parsed::State::partial;
  std::size_t value = 0;
  const char* after = nullptr;
};

[[gnu::always_inline]] inline Length read_length(const char* at, const char* end) noexcept {
  Length length;
  const char* const first = at;
  while (at < end && *at >= '0' && *at <= '9') {
    if (static_cast<std::size_t>(at - first) == kMaxLengthDigits) {
      return {Parsed::State::wrong, 0, nullptr};
    }
    length.value = length.value * 10 + static_cast<std::size_t>(*at++ - '0');
  }
  if (at < end && (at == first || *at != '\r')) return {Parsed::State::wrong, 0, nullptr};
  if (end - at < 2) return length;
  length.state = at[1] == '\n' ? Parsed::State::whole : Parsed::State::wrong;
  length.after = at + 2;
  return length;
}

Parsed parse_array(std::string_view bytes, std::size_t limit, Command& command) noexcept {
  const char* const begin = bytes.data();
  const char* const end = begin + bytes.size();
  if (bytes.substr(1).starts_with('-')) {  // *-1: no array at all, which Redis ignores
    if (bytes.size() < 5) return partial();
    return bytes.substr(1, 4) == "-1\r\n" ? whole(5) : wrong("invalid multibulk length");
  }
  const Length count = read_length(begin + 1, end);
  if (count.state == Parsed::State::partial) return partial();
  if (count.state == Parsed::State::wrong) return wrong("invalid multibulk length");
  if (count.value > kMaxArguments) return wrong("a command has 64 words at most");
  const char* at = count.after;
  for (std::size_t i = 0; i < count.value; ++i) {
    if (at == end) return partial();
    if (*at != '$') return wrong("expected '$' before each word");
    const Length size = read_length(at + 1, end);
    if (size.state == Parsed::State::partial) return partial();
    if (size.state == Parsed::State::wrong) return wrong("invalid bulk length");
    at = size.after;
    if (static_cast<std::size_t>(at - begin) + size.value + 2 > limit) return wrong(kTooBig);
    if (static_cast<std::size_t>(end - at) < size.value + 2) return partial();
    command.words[i] = {at, size.value};
    at += size.value;
    if (at[0] != '\r' || at[1] != '\n') return wrong("a word is longer than its length says");
    at += 2;
  }
  command.count = count.value;
  return whole(static_cast<std::size_t>(at - begin));
}

constexpr bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

constexpr char lowered(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

constexpr bool is_word(std::string_view text, std::string_view lower) noexcept {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (lowered(text[i]) != lower[i]) return false;
  }
  return true;
}

// A browser can be made to send anything behind the head of an HTTP request: no line of it may ever
// be taken for a command.
bool is_http(const Command& command) noexcept {
  if (command.count == 0) return false;
  const std::string_view last = command.words[command.count - 1];
  return is_word(command.name(), "post") || is_word(command.name(), "host:") ||
         (command.count > 1 && last.starts_with("HTTP/"));
}

Parsed parse_line(std::string_view bytes, std::size_t limit, Command& command) noexcept {
  const std::string_view within = bytes.substr(0, limit);
  const std::size_t length = within.find('\n');
  if (length == std::string_view::npos) {
    return bytes.size() >= limit ? wrong(kTooBig) : partial();
  }
  const std::string_view line = within.substr(0, length);
  for (std::size_t at = 0; at < line.size();) {
    if (is_space(line[at])) {
      ++at;
      continue;
    }
    if (command.count == kMaxArguments) return wrong("a command has 64 words at most");
    const char quote = line[at] == '"' || line[at] == '\'' ? line[at] : '\0';
    std::size_t end = quote != '\0' ? line.find(quote, at + 1) : at;
    if (end == std::string_view::npos) return wrong("unbalanced quotes in request");
    if (quote == '\0') {
      while (end < line.size() && !is_space(line[end])) ++end;
      command.words[command.count++] = line.substr(at, end - at);
      at = end;
      continue;
    }
    const std::string_view word = line.substr(at + 1, end - at - 1);
    if (quote == '"' && word.find('\\') != std::string_view::npos) {
      return wrong("no escapes in a line: send an array of bulk strings");
    }
    at = end + 1;
    if (at < line.size() && !is_space(line[at])) return wrong("unbalanced quotes in request");
    command.words[command.count++] = word;
  }
  if (is_http(command)) return wrong("this is HTTP, and here RESP is spoken");
  return whole(length + 1);
}

}  // namespace

Parsed parse_command(std::string_view bytes, std::size_t limit, Command& command) noexcept {
  command.count = 0;
  if (bytes.empty()) return partial();
  const char first = bytes.front();
  if (first == '*') return parse_array(bytes, limit, command);
  const bool is_text = (first >= ' ' && first <= '~') || is_space(first);
  return is_text ? parse_line(bytes, limit, command) : wrong("this is no command");
}

}  // namespace pail::frontend::resp
