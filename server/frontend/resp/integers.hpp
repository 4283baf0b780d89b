// Integers as words of a command.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

namespace pail::frontend::resp {

// Decimal, with a `-` at most; nothing else, no needless zero, as Redis reads them.
[[nodiscard]] constexpr std::optional<std::int64_t> read_integer(std::string_view word) noexcept {
  const bool is_negative = word.starts_with('-');
  if (is_negative) word.remove_prefix(1);
  constexpr std::size_t kMaxDigits = 19;
  if (word.empty() || word.size() > kMaxDigits) return {};
  if (word.front() == '0' && (word.size() > 1 || is_negative)) return {};
  std::uint64_t value = 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + static_cast<std::uint64_t>(c - '0');  // 19 digits fit
  }
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value > kMost + (is_negative ? 1 : 0)) return {};
  return static_cast<std::int64_t>(is_negative ? 0 - value : value);
}

// The same, from `least` to `most`.
[[nodiscard]] constexpr std::optional<std::int64_t> read_integer(std::string_view word,
                                                                 std::int64_t least,
                                                                 std::int64_t most) noexcept {
  const auto value = read_integer(word);
  if (!value || *value < least || *value > most) return {};
  return value;
}

}  // namespace pail::frontend::resp
