#include "server/policy/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "protocol/regular_file.hpp"
#include "server/policy/nesting.hpp"
#include "server/policy/section.hpp"
#include "server/policy/write.hpp"

namespace pail::policy {
namespace {

constexpr std::size_t kMostFaultsTold = 20;

std::optional<engine::WindowRule> read_window(Section& section, bool is_permits) {
  const auto ttl = section.parsed("ttl", "30s", [](std::string_view text) {
    return parse_seconds("ttl", text).map([](std::uint32_t seconds) {
      return engine::WindowRule::every(seconds);
    });
  });
  auto window = section.parsed("window", "1min", parse_window);
  const auto anchor = section.number("anchor", 1, 31);
  if (ttl && !is_permits) {
    section.fault(section.line(), "ttl is for permits, algorithm = \"concurrency\"");
  }
  if (window && is_permits) {
    section.fault(section.line(), "window is for windows: permits have a ttl = \"30s\"");
  }
  if (anchor) {
    if (window && window->seconds == 0) {
      window = engine::WindowRule::month(static_cast<std::uint8_t>(*anchor));
    } else {
      section.fault(section.line(), "anchor is the day that a month begins on: window = \"month\"");
    }
  }
  return is_permits ? ttl : window;
}

// `below`: the algorithm where it is not said.
Numbers read_numbers(Section& section, std::optional<engine::Algorithm> below) {
  Numbers numbers;
  numbers.algorithm = section.parsed("algorithm", "token_bucket", parse_algorithm);
  const auto algorithm =
      numbers.algorithm.value_or(below.value_or(engine::Algorithm::token_bucket));
  numbers.rate = section.parsed("rate", "100/s", protocol::parse_rate);
  numbers.burst = section.number("burst", 1);
  numbers.limit = section.number("limit", 1);
  numbers.window = read_window(section, algorithm == engine::Algorithm::concurrency);
  if (const auto reserve = section.numbers("reserve", engine::kPriorities)) {
    numbers.reserve.emplace();
    std::copy(reserve->begin(), reserve->end(), numbers.reserve->begin());
  }
  numbers.max_wait_ns = section.parsed("max_wait", "2s", protocol::parse_duration_ns);
  numbers.max_debt = section.number("max_debt", 0);
  numbers.lease = section.parsed("lease", "200ms/10%/8", parse_lease);
  return numbers;
}

// Its name, or nothing: said already.
std::optional<std::string> read_name(Section& section, std::string_view example) {
  const bool is_there = section.find("name") != nullptr;
  const auto name = section.text("name", example);
  if (!name) {
    if (is_there) return std::nullopt;
    section.fault(section.line(), fmt::format("it has no name: write name = \"{}\"", example));
    return std::nullopt;
  }
  if (const std::string fault = fault_in_name(*name); !fault.empty()) {
    section.fault(section.line(), fmt::format("name = \"{}\": {}", *name, fault));
    return std::nullopt;
  }
  return name;
}

Tier read_tier(const toml::table& table, const Definition& policy, std::vector<Fault>& faults) {
  Section section(table, fmt::format("a tier of policy \"{}\"", policy.name), faults);
  Tier tier;
  tier.line = section.line();
  tier.name = read_name(section, "gold").value_or("");
  if (!tier.name.empty()) section.set_title(fmt::format("tier \"{}/{}\"", policy.name, tier.name));
  tier.numbers = read_numbers(section, policy.numbers.algorithm);
  section.refuse_unknown();
  if (tier.numbers.algorithm || tier.numbers.window) {
    section.fault(tier.line,
                  "a tier has the algorithm and the window or ttl of its policy, because its keys "
                  "keep what they have used: leave them out, or make it a policy of its own");
  }
  return tier;
}

Override read_override(const toml::table& table, const Definition& policy,
                       std::vector<Fault>& faults) {
  Section section(table, fmt::format("an override of policy \"{}\"", policy.name), faults);
  Override override;
  override.line = section.line();
  const bool has_key = section.find("key") != nullptr;
  override.key = section.text("key", "alice").value_or("");
  if (!has_key) section.fault(override.line, "it has no key: write key = \"alice\"");
  if (!override.key.empty()) {
    section.set_title(
        fmt::format("override of {} in policy \"{}\"", policy::quoted(override.key), policy.name));
  }
  override.tier = section.text("tier", "gold").value_or("");
  override.expires_s = section.time("expires").value_or(0);
  override.numbers = read_numbers(section, policy.numbers.algorithm);
  section.refuse_unknown();
  if (override.numbers.algorithm || override.numbers.window) {
    section.fault(
        override.line,
        "an override has the algorithm and the window or ttl of its policy: leave them out");
  } else if (override.tier.empty() && override.numbers == Numbers{}) {
    section.fault(override.line,
                  "it says nothing: write tier = \"gold\", or numbers such as rate = \"100/s\"");
  } else if (!override.tier.empty() && !(override.numbers == Numbers{})) {
    section.fault(override.line, "it has a tier and numbers: leave one of the two out");
  }
  return override;
}

Definition read_policy(const toml::table& table, const Numbers& defaults,
                       std::vector<Fault>& faults) {
  Section section(table, "a policy", faults);
  Definition policy;
  policy.line = section.line();
  policy.name = read_name(section, "api").value_or("");
  if (!policy.name.empty()) section.set_title(fmt::format("policy \"{}\"", policy.name));
  const Numbers own = read_numbers(section, defaults.algorithm);
  const auto algorithm =
      own.algorithm.value_or(defaults.algorithm.value_or(engine::Algorithm::token_bucket));
  if (const std::string fault = fault_in(own, algorithm); !fault.empty()) {
    section.fault(policy.line, fault);
  }
  policy.numbers = layered(own, defaults);
  policy.numbers.algorithm = algorithm;
  policy.mode = section.parsed("mode", "shadow", parse_mode).value_or(policy.mode);
  policy.percent = static_cast<std::uint8_t>(section.number("percent", 0, 100).value_or(100));
  for (const toml::table* tier : section.tables("tier", "policy.tier")) {
    policy.tiers.push_back(read_tier(*tier, policy, faults));
  }
  for (const toml::table* override : section.tables("override", "policy.override")) {
    policy.overrides.push_back(read_override(*override, policy, faults));
  }
  section.refuse_unknown();
  return policy;
}

std::optional<std::string> to_text(const toml::node& node) {
  if (const auto* const text = node.as_string()) return text->get();
  if (const auto* const number = node.as_integer()) return std::to_string(number->get());
  if (const auto* const flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

// Which of them there are is up to whoever reads the flags.
std::vector<Setting> read_settings(const toml::table& table, std::vector<Fault>& faults) {
  std::vector<Setting> settings;
  Section section(table, "[server]", faults);
  for (const auto& [key, node] : table) {
    Setting setting{std::string(key.str()), {}, key.source().begin.line};
    const auto add = [&](const toml::node& one) {
      if (auto text = to_text(one)) return setting.values.push_back(std::move(*text));
      section.wrong_type(setting.name, one,
                         "text, a whole number, true or false, or a list of them");
    };
    if (const auto* const list = node.as_array()) {
      for (const toml::node& one : *list) add(one);
    } else {
      add(node);
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<Fault> not_toml(const toml::parse_error& error) {
  return {{error.source().begin.line,
           fmt::format("this is not TOML: {}. A line is key = value, text stands in quotes, and a "
                       "policy begins with [[policy]]",
                       error.description())}};
}

}  // namespace

namespace {

// How many letters must change, at most, to make one word of the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (const char letter : a) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (letter == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string remedy(std::string_view word, const std::vector<std::string>& known) {
  const auto nearest =
      std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
        return distance(word, a) < distance(word, b);
      });
  if (nearest != known.end() && distance(word, *nearest) <= (word.size() + 1) / 3) {
    return fmt::format("is \"{}\" meant?", *nearest);
  }
  return fmt::format("known are {}", fmt::join(known, ", "));
}

std::string format(const std::string& file, const std::vector<Fault>& faults) {
  std::string text;
  for (std::size_t i = 0; i < faults.size() && i < kMostFaultsTold; ++i) {
    text += fmt::format("{}{}:{}: {}", i == 0 ? "" : "\n", file, faults[i].line, faults[i].text);
  }
  if (faults.size() > kMostFaultsTold) {
    text += fmt::format("\n{}: and {} more", file, faults.size() - kMostFaultsTold);
  }
  return text;
}

tl::expected<File, std::vector<Fault>> parse_file(std::string_view text) {
  if (auto fault = fault_in_nesting(text)) return tl::unexpected(std::vector{std::move(*fault)});
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return tl::unexpected(not_toml(parsed.error()));
  std::vector<Fault> faults;
  File file;
  Section section(parsed.table(), "the file", faults);
  if (const toml::table* const table = section.table("server")) {
    file.settings = read_settings(*table, faults);
  }
  Numbers defaults;
  if (const toml::table* const table = section.table("defaults")) {
    Section own(*table, "[defaults]", faults);
    defaults = read_numbers(own, std::nullopt);
    own.refuse_unknown();
  }
  for (const toml::table* table : section.tables("policy", "policy")) {
    file.policies.push_back(read_policy(*table, defaults, faults));
  }
  file.unknown = section.parsed("unknown_policy", "refuse", parse_unknown).value_or(Unknown{});
  section.refuse_unknown();
  if (faults.empty()) {
    // Expired or not: everything is looked at.
    if (auto list = to_list(file.policies, 0); !list) faults = std::move(list.error());
  }
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.line < b.line; });
  if (!faults.empty()) return tl::unexpected(std::move(faults));
  return file;
}

Parsed<File> read_file(const std::string& path) {
  // Not written before it is read: as much memory as the file has.
  constexpr std::size_t kBufferBytes = kMaxFileBytes + 1;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBufferBytes);
  const auto read = protocol::read_regular_file(path, {buffer.get(), kBufferBytes});
  if (!read) return tl::unexpected(fmt::format("{}: {}", path, read.error()));
  auto file = parse_file(read->text);
  if (!file) return tl::unexpected(format(path, file.error()));
  return std::move(*file);
}

}  // namespace pail::policy
