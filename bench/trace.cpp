#include "bench/trace.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <istream>
#include <unordered_map>

#include "protocol/messages.hpp"

namespace pail::bench {
namespace {

constexpr double kMaxGapUs = 1e12;  // 11 days: more is a mistake in the file
// The longest key, two numbers and space around them; more is no trace but some other file.
constexpr std::size_t kMaxLineBytes = protocol::kMaxKeyBytes + 256;

// The words of a line; more than three come back as four.
std::array<std::string_view, 4> split(std::string_view line) {
  std::array<std::string_view, 4> words;
  for (std::string_view& word : words) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    word = line.substr(0, end);
    line.remove_prefix(end);
  }
  return words;
}

template <class Number>
bool parse_whole(std::string_view text, Number& number) {
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  return error == std::errc() && end == last;
}

}  // namespace

tl::expected<Trace, std::string> read_trace(std::istream& stream) {
  Trace trace;
  std::unordered_map<std::string, std::uint32_t> numbers;
  std::array<char, kMaxLineBytes + 2> line{};  // a full buffer is a line that is too long
  std::uint64_t at_ns = 0;
  for (std::size_t number = 1; !stream.eof(); ++number) {
    stream.getline(line.data(), static_cast<std::streamsize>(line.size()));
    const auto wrong = [number](std::string_view what) {
      return tl::unexpected(fmt::format(
          "line {}: {}; a line is 'key cost gap_us', as in 'alice 1 250'", number, what));
    };
    if (stream.bad() || (stream.fail() && stream.gcount() > 0)) {
      return wrong("too long, or not to be read");
    }
    const auto words = split(std::string_view(line.data()));
    if (words[0].empty() || words[0].front() == '#') continue;
    TraceEntry entry;
    double gap_us = 0;
    if (words[2].empty() || !words[3].empty()) return wrong("not three words");
    if (words[0].size() > protocol::kMaxKeyBytes) return wrong("the key is too long");
    if (!parse_whole(words[1], entry.cost) || entry.cost == 0) {
      return wrong("the cost is no whole number of at least 1");
    }
    if (!parse_whole(words[2], gap_us) || !(gap_us >= 0) || gap_us > kMaxGapUs) {
      return wrong("the gap is no number of microseconds");
    }
    if (trace.entries.size() == Trace::kMaxEntries) return wrong("too many lines");
    at_ns += static_cast<std::uint64_t>(std::llround(gap_us * 1e3));
    entry.at_ns = at_ns;
    const auto [known, is_new] = numbers.try_emplace(std::string(words[0]), trace.keys.size());
    if (is_new) trace.keys.emplace_back(words[0]);
    entry.key = known->second;
    trace.entries.push_back(entry);
  }
  if (trace.entries.empty()) return tl::unexpected(std::string("no requests in it"));
  return trace;
}

tl::expected<Trace, std::string> read_trace_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return tl::unexpected(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  auto trace = read_trace(file);
  if (!trace) return tl::unexpected(fmt::format("{}: {}", path, trace.error()));
  return trace;
}

}  // namespace pail::bench
