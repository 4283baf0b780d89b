// The log: one line an event on the error stream, as text for people or as JSON for machines.
//
//   2026-11-30T08:40:22.123Z warning table full: new keys are refused count=17
//   {"time":"2026-11-30T08:40:22.123Z","level":"warning","event":"table_full","count":17}
//
// Keys and tokens are never given to it, and nothing on the request path calls it: shards count,
// and what the counts say is written by the main thread (journal.hpp), at most once in a while for
// each kind. What came from a peer is escaped here, whatever it is, so that no peer can write lines
// of its own.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace spdlog {
class logger;
namespace sinks {
class sink;
}
}  // namespace spdlog

namespace pail::server {

enum class LogFormat : std::uint8_t { text, json };
enum class LogLevel : std::uint8_t { debug, info, warning, error };

struct LogOptions {
  LogFormat format = LogFormat::text;
  LogLevel level = LogLevel::info;  // and above
};

struct LogField {
  std::string_view name;  // snake_case
  std::variant<std::string_view, std::uint64_t> value;
};

struct LogEvent {
  LogLevel level = LogLevel::info;
  std::string_view name;  // snake_case, for machines
  std::string_view text;  // for people
};

class Log {
 public:
  explicit Log(const LogOptions& options);  // to the error stream
  Log(const LogOptions& options, std::shared_ptr<spdlog::sinks::sink> sink);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  // From any thread; may allocate and wait for the stream.
  void write(const LogEvent& event, std::span<const LogField> fields = {}) noexcept;
  void write(const LogEvent& event, std::initializer_list<LogField> fields) noexcept {
    write(event, std::span(fields.begin(), fields.size()));
  }

 private:
  LogFormat format_;
  std::unique_ptr<spdlog::logger> logger_;
};

// Printable ASCII but for the quote and the backslash as it is, any other byte as \xHH; what is
// longer than 256 bytes is cut and ends in "...". The result needs no further care between quotes.
[[nodiscard]] std::string escaped(std::string_view bytes);

// The line but for its time and level. Pure.
[[nodiscard]] std::string text_line(const LogEvent& event, std::span<const LogField> fields);
// The members of a JSON object, without its braces, time and level.
[[nodiscard]] std::string json_members(const LogEvent& event, std::span<const LogField> fields);

}  // namespace pail::server
