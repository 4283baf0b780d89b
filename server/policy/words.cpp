#include "server/policy/words.hpp"

#include <fmt/format.h>

#include <charconv>

namespace pail::policy {
namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::string_view kNumberWords =
    "rate, burst, limit, window, anchor, ttl, reserve, max_wait, max_debt";

Parsed<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc{} && stop == end) return value;
  return tl::unexpected(fmt::format("\"{}\" is not a whole number up to 4294967295", text));
}

template <class T, class Value>
std::string put(std::optional<T>& place, Parsed<Value> value) {
  if (!value) return value.error();
  place = static_cast<T>(*value);
  return {};
}

std::string put_reserve(Numbers& numbers, std::string_view text) {
  std::array<std::uint32_t, engine::kPriorities> reserve{};
  for (std::size_t p = 0;; ++p) {
    const std::size_t end = std::min(text.find('/'), text.size());
    if (p == reserve.size()) return "one for each priority, 4 at most, as in reserve=20/5";
    const auto value = parse_number(text.substr(0, end));
    if (!value) return value.error();
    reserve[p] = *value;
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  numbers.reserve = reserve;
  return {};
}

// Nothing: the key is none of a limit's numbers.
std::optional<std::string> put_number(std::string_view key, std::string_view value,
                                      engine::Algorithm algorithm, Numbers& numbers) {
  if (key == "rate") return put(numbers.rate, protocol::parse_rate(value));
  if (key == "burst") return put(numbers.burst, protocol::parse_burst(value));
  if (key == "limit") return put(numbers.limit, parse_number(value));
  if (key == "max_debt") return put(numbers.max_debt, parse_number(value));
  if (key == "max_wait") return put(numbers.max_wait_ns, protocol::parse_duration_ns(value));
  if (key == "reserve") return put_reserve(numbers, value);
  if (key == "algorithm") return put(numbers.algorithm, parse_algorithm(value));
  if (key == "window" && algorithm != engine::Algorithm::concurrency) {
    return put(numbers.window, parse_window(value));
  }
  if (key == "ttl" && algorithm == engine::Algorithm::concurrency) {
    return put(numbers.window, parse_seconds("ttl", value).map(engine::WindowRule::every));
  }
  if (key == "anchor" && numbers.window && numbers.window->seconds == 0) {
    const auto day = parse_number(value);
    if (!day) return day.error();
    if (*day < 1 || *day > 31) return "a day from 1 to 31";
    numbers.window = engine::WindowRule::month(static_cast<std::uint8_t>(*day));
    return "";
  }
  return std::nullopt;
}

struct Word {
  std::string_view key;
  std::string_view value;
};

Word split(std::string_view word) {
  const std::size_t equals = std::min(word.find('='), word.size());
  return {word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))};
}

std::string named(std::string_view word, std::string fault) {
  return fault.empty() ? fault : fmt::format("{}: {}", word, fault);
}

}  // namespace

std::string apply_word(const std::string& word, engine::Algorithm algorithm, Change& change) {
  const auto [key, value] = split(word);
  if (key == "mode") return named(word, put(change.mode, parse_mode(value)));
  if (key == "percent") {
    const auto percent = parse_number(value);
    if (!percent || *percent > 100) return named(word, "it is 0 to 100");
    change.percent = static_cast<std::uint8_t>(*percent);
    return {};
  }
  if (const auto fault = put_number(key, value, algorithm, change.numbers)) {
    return named(word, *fault);
  }
  return fmt::format(
      "\"{}\" is nothing that a policy of this kind has: {}, mode and percent, as in "
      "rate=200/s mode=shadow",
      word, kNumberWords);
}

std::string apply_word(const std::string& word, engine::Algorithm algorithm, std::int64_t now_s,
                       Override& override) {
  const auto [key, value] = split(word);
  if (key == "for") {
    const auto end = parse_for(word, now_s);
    if (!end) return end.error();
    override.expires_s = *end;
    return {};
  }
  if (key == "tier") {
    override.tier = value;
    return value.empty() ? "tier=: its name is missing" : "";
  }
  const bool is_fixed = key == "algorithm" || key == "window" || key == "ttl" || key == "anchor";
  if (const auto fault =
          is_fixed ? std::nullopt : put_number(key, value, algorithm, override.numbers)) {
    return named(word, *fault);
  }
  return fmt::format(
      "\"{}\" is nothing that an override has: tier, for, or rate, burst, limit, "
      "reserve, max_wait, max_debt, as in rate=200/s for=1h",
      word);
}

Parsed<std::uint32_t> parse_factor(std::string_view text) {
  const std::string wrong =
      fmt::format("factor \"{}\" is not a number from 0.000001 to 1000, such as 0.5", text);
  std::uint64_t millionths = 0;
  int decimals = -1;  // not behind the point yet
  for (const char c : text) {
    if (c == '.' && decimals < 0) {
      decimals = 0;
    } else if (c >= '0' && c <= '9' && decimals < 6 && millionths < 10'000'000'000) {
      millionths = millionths * 10 + static_cast<std::uint64_t>(c - '0');
      decimals += decimals >= 0 ? 1 : 0;
    } else {
      return tl::unexpected(wrong);
    }
  }
  for (int i = decimals < 0 ? 0 : decimals; i < 6; ++i) millionths *= 10;
  if (text.empty() || millionths == 0 || millionths > 1'000'000'000) return tl::unexpected(wrong);
  return static_cast<std::uint32_t>(millionths);
}

Parsed<std::int64_t> parse_for(std::string_view word, std::int64_t now_s) {
  const auto ns = protocol::parse_duration_ns(split(word).value);
  if (!ns) return tl::unexpected(fmt::format("{}: {}", word, ns.error()));
  if (*ns < kSecondNs || *ns > protocol::kMaxPeriodNs) {
    return tl::unexpected(fmt::format("{}: 1s to 366d", word));
  }
  return now_s + static_cast<std::int64_t>((*ns + kSecondNs - 1) / kSecondNs);
}

}  // namespace pail::policy
