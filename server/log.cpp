#include "server/log.hpp"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>

namespace pail::server {
namespace {

constexpr std::size_t kMaxValueBytes = 256;

constexpr spdlog::level::level_enum level_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// `hex` is how a byte that may not stand for itself is written: "\\x{:02x}" or "\\u{:04x}".
template <class Format>
std::string escaped_with(std::string_view bytes, const Format& hex) {
  std::string text;
  for (const char byte : bytes.substr(0, kMaxValueBytes)) {
    if (byte >= 0x20 && byte <= 0x7E && byte != '"' && byte != '\\') {
      text += byte;
    } else {
      text += hex(static_cast<unsigned char>(byte));
    }
  }
  if (bytes.size() > kMaxValueBytes) text += "...";
  return text;
}

std::string json_string(std::string_view bytes) {
  return "\"" +
         escaped_with(bytes, [](unsigned char byte) { return fmt::format("\\u{:04x}", byte); }) +
         "\"";
}

// Words that need no quotes: addresses, names, numbers.
bool is_plain(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > 0x20 && c <= 0x7E && c != '"' && c != '\\' && c != '=';
  });
}

}  // namespace

std::string escaped(std::string_view bytes) {
  return escaped_with(bytes, [](unsigned char byte) { return fmt::format("\\x{:02x}", byte); });
}

std::string text_line(const LogEvent& event, std::span<const LogField> fields) {
  std::string line(event.name);
  if (!event.text.empty() && event.text != event.name) line.append(": ").append(event.text);
  for (const LogField& field : fields) {
    line += fmt::format(" {}=", field.name);
    if (const auto* number = std::get_if<std::uint64_t>(&field.value)) {
      line += fmt::format("{}", *number);
    } else {
      const std::string_view text = std::get<std::string_view>(field.value);
      const std::string safe = escaped(text);
      line += is_plain(text) ? safe : "\"" + safe + "\"";
    }
  }
  return line;
}

std::string json_members(const LogEvent& event, std::span<const LogField> fields) {
  std::string line = "\"event\":" + json_string(event.name);
  if (!event.text.empty()) line += ",\"text\":" + json_string(event.text);
  for (const LogField& field : fields) {
    line += fmt::format(",{}:", json_string(field.name));
    if (const auto* number = std::get_if<std::uint64_t>(&field.value)) {
      line += fmt::format("{}", *number);
    } else {
      line += json_string(std::get<std::string_view>(field.value));
    }
  }
  return line;
}

Log::Log(const LogOptions& options)
    : Log(options, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {}

Log::Log(const LogOptions& options, std::shared_ptr<spdlog::sinks::sink> sink)
    : format_(options.format), logger_(std::make_unique<spdlog::logger>("paild", std::move(sink))) {
  logger_->set_level(level_of(options.level));
  logger_->flush_on(spdlog::level::trace);
  logger_->set_error_handler([](const std::string&) {});  // A full disk does not stop a server.
  logger_->set_pattern(format_ == LogFormat::json
                           ? "{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",\"level\":\"%l\",%v}"
                           : "%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                       spdlog::pattern_time_type::utc);
}

Log::~Log() = default;

void Log::write(const LogEvent& event, std::span<const LogField> fields) noexcept {
  try {
    if (!logger_->should_log(level_of(event.level))) return;
    logger_->log(
        level_of(event.level), "{}",
        format_ == LogFormat::json ? json_members(event, fields) : text_line(event, fields));
  } catch (...) {
    // Without memory for a line there is no line.
  }
}

}  // namespace pail::server
