#include "client/command/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace pail::command {
namespace {

using Json = nlohmann::ordered_json;

struct Unit {
  std::int64_t size_ns;
  const char* name;
};
constexpr std::array<Unit, 7> kUnits{{{86'400'000'000'000, "d"},
                                      {3'600'000'000'000, "h"},
                                      {60'000'000'000, "min"},
                                      {1'000'000'000, "s"},
                                      {1'000'000, "ms"},
                                      {1'000, "us"},
                                      {1, "ns"}}};

// Tokens of error texts may come from anywhere; a byte that is no UTF-8 must not end the program.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json json_object(const Decision& decision) {
  Json json;
  json["status"] = name(decision.status);
  json["admitted"] = decision.admitted();
  json["granted"] = decision.granted;
  json["remaining"] = decision.remaining;
  json["limit"] = decision.limit;
  if (decision.status == Decision::Status::never) {
    json["retry_after_ns"] = nullptr;
  } else {
    json["retry_after_ns"] = decision.retry_after.count();
  }
  json["reset_after_ns"] = decision.reset_after.count();
  json["hold_ns"] = decision.hold.count();
  if (decision.grant != 0)
    json["grant"] = std::to_string(decision.grant);  // more than a double holds
  return json;
}

}  // namespace

std::string text_of(std::chrono::nanoseconds duration) {
  const std::int64_t ns = duration.count();
  for (const Unit& unit : kUnits) {
    if (ns < unit.size_ns || unit.size_ns == 1) continue;
    const std::int64_t tenth_ns = unit.size_ns / 10;
    const std::int64_t tenths = ns / tenth_ns + (ns % tenth_ns != 0 ? 1 : 0);
    if (tenths % 10 == 0) return fmt::format("{} {}", tenths / 10, unit.name);
    return fmt::format("{}.{} {}", tenths / 10, tenths % 10, unit.name);
  }
  return fmt::format("{} ns", ns);
}

std::string text_of(const Decision& decision, bool is_peek) {
  const std::string budget = fmt::format("{} of {} left", decision.remaining, decision.limit);
  const std::string reset = fmt::format("full again in {}", text_of(decision.reset_after));
  switch (decision.status) {
    case Decision::Status::admitted: {
      std::string line = is_peek ? "would be admitted: " : "admitted: ";
      if (!is_peek) line += fmt::format("{} taken, ", decision.granted);
      line += budget;
      if (decision.hold.count() != 0) line += fmt::format("; hold for {}", text_of(decision.hold));
      if (decision.reset_after.count() != 0) line += "; " + reset;
      if (decision.grant != 0) line += fmt::format("; grant {}", decision.grant);
      return line;
    }
    case Decision::Status::denied:
    case Decision::Status::shed:
      return fmt::format("{}{}: {}; retry after {}; {}", is_peek ? "would be " : "",
                         decision.status == Decision::Status::shed
                             ? "refused to keep a reserve for higher priorities"
                             : "refused",
                         budget, text_of(decision.retry_after), reset);
    case Decision::Status::never:
      return fmt::format(
          "{}refused for ever: the cost is more than the limit of {}, less what is "
          "reserved for higher priorities, can ever grant",
          is_peek ? "would be " : "", decision.limit);
  }
  return "";
}

std::string text_of(const LayersDecision& decision, const std::vector<std::string>& layers) {
  std::string text = text_of(decision.decision, false);
  for (std::size_t i = 0; i < decision.layers.size(); ++i) {
    const LayerState& state = decision.layers[i];
    text += fmt::format("\n  {}: {} of {} left{}", layers[i], state.remaining, state.limit,
                        decision.refusing == i ? ", refused" : "");
  }
  return text;
}

std::string json_of(const LayersDecision& decision) {
  Json json = json_object(decision.decision);
  json["refusing"] = decision.refusing ? Json(*decision.refusing) : Json(nullptr);
  json["layers"] = Json::array();
  for (const LayerState& state : decision.layers) {
    json["layers"].push_back({{"remaining", state.remaining},
                              {"limit", state.limit},
                              {"reset_after_ns", state.reset_after.count()}});
  }
  return dump(json);
}

Result<WrittenLayer> parse_layer(std::string_view text) {
  const auto wrong = [&](const char* what) {
    return tl::unexpected(Error{ErrorCode::bad_argument,
                                fmt::format("layer \"{}\" {}: POLICY=KEY or POLICY*COST=KEY, as in "
                                            "tenant*5=acme",
                                            text, what)});
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return wrong("has no key");
  const std::size_t star = text.substr(0, equals).find('*');
  WrittenLayer layer;
  layer.policy = text.substr(0, std::min(star, equals));
  layer.key = text.substr(equals + 1);
  if (star != std::string_view::npos) {
    const char* const end = text.data() + equals;
    const auto [stop, error] = std::from_chars(text.data() + star + 1, end, layer.cost);
    if (error != std::errc{} || stop != end || layer.cost == 0) {
      return wrong("has a cost that is no number of at least 1");
    }
  }
  if (layer.policy.empty()) return wrong("names no policy");
  return layer;
}

std::string json_of(const Decision& decision) {
  return dump(json_object(decision));
}

std::string json_of(const Error& error) {
  Json json;
  json["error"] = name(error.code);
  json["text"] = error.text;
  json["maybe_charged"] = error.maybe_charged;
  return dump(json);
}

std::string text_of(const ServerStats& stats, const ServerStats* before,
                    std::chrono::nanoseconds since) {
  std::size_t width = 0;
  for (const Stat& stat : stats.numbers) width = std::max(width, stat.name.size());
  std::string table;
  for (std::size_t i = 0; i < stats.numbers.size(); ++i) {
    const Stat& stat = stats.numbers[i];
    if (stat.value == 0 && stat.kind == Stat::Kind::counter) continue;
    table += fmt::format("{:<{}} {:>20}", stat.name, width, stat.value);
    const bool can_compare = before != nullptr && i < before->numbers.size() &&
                             before->numbers[i].name == stat.name && since.count() > 0;
    if (can_compare && stat.kind == Stat::Kind::counter) {
      const auto grown = static_cast<double>(stat.value - before->numbers[i].value);
      table += fmt::format(" {:>14.1f}/s", grown * 1e9 / static_cast<double>(since.count()));
    }
    table += '\n';
  }
  return table;
}

namespace {

// The words of each line.
std::vector<std::vector<std::string>> table_of(const std::string& text) {
  std::vector<std::vector<std::string>> table;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    table.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return table;
}

}  // namespace

std::string text_of_policies(const PolicyAnswer& policies) {
  std::string text;
  std::istringstream lines(policies.text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t numbers = line.find(' ');
    const bool is_quiet = line.find_first_not_of(" 0", numbers) == std::string::npos;
    if (!is_quiet) text += line + '\n';
  }
  const bool is_head_alone = text.find('\n') + 1 == text.size();
  return is_head_alone ? "" : text;
}

std::string json_of(const ServerStats& stats, const PolicyAnswer* policies) {
  Json counters = Json::object();
  Json gauges = Json::object();
  for (const Stat& stat : stats.numbers) {
    (stat.kind == Stat::Kind::counter ? counters : gauges)[stat.name] = stat.value;
  }
  Json all{{"shards", stats.shards}, {"counters", counters}, {"gauges", gauges}};
  if (policies != nullptr) {
    const auto table = table_of(policies->text);
    Json& by_name = all["policies"] = Json::object();
    for (std::size_t i = 1; i < table.size(); ++i) {
      for (std::size_t j = 1; j < table[i].size() && j < table[0].size(); ++j) {
        by_name[table[i][0]][table[0][j]] = std::strtoull(table[i][j].c_str(), nullptr, 10);
      }
    }
  }
  return dump(all);
}

std::string json_of(const PolicyAnswer& answer) {
  Json lines = Json::array();
  std::string_view rest = answer.text;
  while (!rest.empty()) {
    const std::size_t size = std::min(rest.find('\n'), rest.size());
    lines.push_back(std::string(rest.substr(0, size)));
    rest.remove_prefix(std::min(size + 1, rest.size()));
  }
  return dump(Json{{"version", answer.version}, {"lines", lines}});
}

std::string json_of_reset() {
  return dump(Json{{"reset", true}});
}

std::string json_of_ping(std::chrono::nanoseconds round_trip) {
  return dump(Json{{"round_trip_ns", round_trip.count()}});
}

}  // namespace pail::command
