#include <pail/http.hpp>

#include <algorithm>

namespace pail::http {
namespace {

using std::chrono::nanoseconds;

std::uint64_t whole_seconds(nanoseconds time) {
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(time).count(), 0));
}

// A string of structured fields (RFC 9651, 3.3.3).
std::string quoted(std::string_view text) {
  std::string value = "\"";
  for (const char c : text) {
    const bool is_printable = c >= 0x20 && c <= 0x7E;
    if (c == '"' || c == '\\') value += '\\';
    value += is_printable ? c : '?';
  }
  return value + '"';
}

// The length of the UTF-8 character (RFC 3629) that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  const bool is_overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool is_no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return is_overlong || is_no_character ? 0 : length;
}

// A string of JSON (RFC 8259, 7).
std::string json_string(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string value = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0) {
      value += "\\ufffd";
    } else if (c < 0x20) {
      value += "\\u00";
      value += kHex[c >> 4];
      value += kHex[c & 15];
    } else {
      if (c == '"' || c == '\\') value += '\\';
      value += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return value + '"';
}

// What all styles say.
struct Numbers {
  std::string quota;
  std::string remaining;
  std::string reset;   // seconds from now
  std::string window;  // ";w=60", or nothing
};

Numbers numbers_of(const Decision& decision, const QuotaPolicy& policy) {
  return {std::to_string(policy.quota != 0 ? policy.quota : decision.limit),
          std::to_string(decision.remaining), std::to_string(whole_seconds(decision.reset_after)),
          policy.window.count() > 0 ? ";w=" + std::to_string(policy.window.count()) : ""};
}

std::vector<Field> budget_fields(const Decision& decision, const QuotaPolicy& policy, Style style,
                                 std::chrono::system_clock::time_point now) {
  const Numbers n = numbers_of(decision, policy);
  const auto x_fields = [&](std::string reset) -> std::vector<Field> {
    return {{"X-RateLimit-Limit", n.quota},
            {"X-RateLimit-Remaining", n.remaining},
            {"X-RateLimit-Reset", std::move(reset)}};
  };
  switch (style) {
    case Style::draft_11: {
      const std::string name = quoted(policy.name);
      return {{"RateLimit-Policy", name + ";q=" + n.quota + n.window},
              {"RateLimit", name + ";r=" + n.remaining + ";t=" + n.reset}};
    }
    case Style::draft_07:
      return {
          {"RateLimit-Policy", n.quota + n.window},
          {"RateLimit", "limit=" + n.quota + ", remaining=" + n.remaining + ", reset=" + n.reset}};
    case Style::draft_06:
      return {{"RateLimit-Limit", n.quota},
              {"RateLimit-Remaining", n.remaining},
              {"RateLimit-Reset", n.reset},
              {"RateLimit-Policy", n.quota + n.window}};
    case Style::x_delta:
      return x_fields(n.reset);
    case Style::x_epoch:
      return x_fields(std::to_string(whole_seconds(now.time_since_epoch() + decision.reset_after)));
  }
  return {};
}

}  // namespace

int status(const Decision& decision) noexcept {
  if (decision.admitted()) return 200;
  return decision.source == Decision::Source::fallback_closed ? 503 : 429;
}

std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept {
  if (decision.admitted() || decision.status == Decision::Status::never) return std::nullopt;
  return std::max<std::uint64_t>(whole_seconds(decision.retry_after), 1);
}

std::vector<Field> rate_limit_fields(const Decision& decision, const QuotaPolicy& policy,
                                     Style style, std::chrono::system_clock::time_point now) {
  std::vector<Field> fields;
  const bool is_counted =
      !decision.is_fallback() || decision.source == Decision::Source::fallback_local;
  if (is_counted) fields = budget_fields(decision, policy, style, now);
  if (const auto seconds = retry_after_seconds(decision)) {
    fields.push_back({"Retry-After", std::to_string(*seconds)});
  }
  return fields;
}

std::string problem_json(const Decision& decision, std::span<const std::string_view> violated,
                         std::string_view detail) {
  const int code = status(decision);
  const bool is_ours = code == 503;
  std::string json = R"({"type":"https://iana.org/assignments/http-problem-types#)";
  json += is_ours ? "temporary-reduced-capacity" : "quota-exceeded";
  json += R"(","title":")";
  json += is_ours ? "Request cannot be satisfied due to temporary server capacity constraints"
                  : "Request cannot be satisfied as assigned quota has been exceeded";
  json += R"(","status":)" + std::to_string(code);
  if (!detail.empty()) json += R"(,"detail":)" + json_string(detail);
  json += R"(,"violated-policies":[)";
  for (std::size_t i = 0; i < violated.size(); ++i) {
    if (i != 0) json += ',';
    json += json_string(violated[i]);
  }
  return json + "]}";
}

}  // namespace pail::http
