#include "bench/slo.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "bench/report.hpp"
#include "protocol/limit_text.hpp"

namespace pail::bench {
namespace {

std::optional<double> parse_percent(std::string_view text) {
  if (text == "max") return 100.0;
  if (!text.starts_with('p')) return std::nullopt;
  text.remove_prefix(1);
  double percent = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (error != std::errc() || end != last || !(percent > 0) || percent > 100) return std::nullopt;
  return percent;
}

}  // namespace

tl::expected<std::vector<Objective>, std::string> parse_objectives(std::string_view text) {
  std::vector<Objective> objectives;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const std::size_t equals = one.find('=');
    const auto percent = parse_percent(one.substr(0, equals));
    if (!percent || equals == std::string_view::npos) {
      return tl::unexpected(fmt::format(
          "'{}' is no objective: a percentile and a time, as in p99=1ms or max=20ms", one));
    }
    const auto limit = protocol::parse_duration_ns(one.substr(equals + 1));
    if (!limit) return tl::unexpected(limit.error());
    objectives.push_back({*percent, *limit});
  }
  return objectives;
}

std::vector<std::string> missed(const std::vector<Objective>& objectives,
                                const Histogram& latencies_ns) {
  std::vector<std::string> lines;
  for (const Objective& objective : objectives) {
    const std::uint64_t found = latencies_ns.percentile(objective.percent);
    if (latencies_ns.total() != 0 && found <= objective.limit_ns) continue;
    lines.push_back(latencies_ns.total() == 0
                        ? fmt::format("p{}: nothing was measured", objective.percent)
                        : fmt::format("p{} is {}, which is more than {}", objective.percent,
                                      format_ns(static_cast<double>(found)),
                                      format_ns(static_cast<double>(objective.limit_ns))));
  }
  return lines;
}

}  // namespace pail::bench
