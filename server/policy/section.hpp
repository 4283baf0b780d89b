// A table of a TOML file while it is read: every key is asked for, in the type that it must have,
// and what nobody has asked for is a mistake. For file.cpp, the only source that knows TOML.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "server/policy/file.hpp"

namespace pail::policy {

[[nodiscard]] inline std::uint32_t line_of(const toml::node& node) noexcept {
  return node.source().begin.line;
}

// What a value is, in words.
[[nodiscard]] inline std::string_view kind_of(const toml::node& node) noexcept {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a point";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      break;
  }
  return "a date or a time";
}

class Section {
 public:
  // `title` is how people call it: "[defaults]", "policy \"api\"".
  Section(const toml::table& table, std::string title, std::vector<Fault>& faults)
      : table_(table), title_(std::move(title)), faults_(faults) {}

  [[nodiscard]] std::uint32_t line() const noexcept { return line_of(table_); }
  void set_title(std::string title) { title_ = std::move(title); }

  void fault(std::uint32_t line, const std::string& text) {
    faults_.push_back({line, fmt::format("{}: {}", title_, text)});
  }

  // Null: not there.
  [[nodiscard]] const toml::node* find(std::string_view key) {
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
    return table_.get(key);
  }

  [[nodiscard]] std::optional<std::string> text(std::string_view key, std::string_view example) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto* const value = node->as_string()) return value->get();
    return wrong_type(key, *node, fmt::format("text in quotes: {} = \"{}\"", key, example));
  }

  // By a parser of the text, whose error is a fault of the key's line.
  template <class Parse>
  auto parsed(std::string_view key, std::string_view example, Parse&& parse)
      -> std::optional<typename std::invoke_result_t<Parse, std::string_view>::value_type> {
    const toml::node* const node = table_.get(key);
    const auto written = text(key, example);
    if (!written) return std::nullopt;
    auto value = parse(std::string_view(*written));
    if (value) return *value;
    fault(line_of(*node), fmt::format("{} = \"{}\": {}; as in {} = \"{}\"", key, *written,
                                      value.error(), key, example));
    return std::nullopt;
  }

  [[nodiscard]] std::optional<std::uint32_t> number(
      std::string_view key, std::uint32_t least,
      std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto* const value = node->as_integer();
    if (value == nullptr) {
      return wrong_type(key, *node,
                        fmt::format("a whole number from {} to {}, without quotes", least, most));
    }
    return in_range(key, *node, value->get(), least, most);
  }

  // A date and time with its offset, as UTC in seconds.
  [[nodiscard]] std::optional<std::int64_t> time(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto* const value = node->as_date_time();
    if (value == nullptr || !value->get().offset) {
      return wrong_type(key, *node, "a time with its offset, without quotes: 2026-12-24T18:00:00Z");
    }
    const toml::date_time& at = value->get();
    const std::int64_t days =
        engine::detail::days_from_civil(at.date.year, at.date.month, at.date.day);
    return days * 86'400 + at.time.hour * 3600 + at.time.minute * 60 + at.time.second -
           at.offset->minutes * 60;
  }

  // One number, or a list of some.
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> numbers(std::string_view key,
                                                                  std::size_t most_of_them) {
    const toml::node* const node = find(key);
    if (node == nullptr) return std::nullopt;
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
    std::vector<std::uint32_t> found;
    const auto add = [&](const toml::node& one) {
      const auto* const value = one.as_integer();
      if (value == nullptr) {
        wrong_type(key, one, fmt::format("whole numbers, as in {} = [20, 5]", key));
        return false;
      }
      const auto fine = in_range(key, one, value->get(), 0, kMost);
      if (fine) found.push_back(*fine);
      return fine.has_value();
    };
    const auto* const list = node->as_array();
    if (list == nullptr) return add(*node) ? std::optional(found) : std::nullopt;
    if (list->size() > most_of_them) {
      fault(line_of(*node), fmt::format("{} has {} numbers: one for each priority, {} at most", key,
                                        list->size(), most_of_them));
      return std::nullopt;
    }
    for (const toml::node& one : *list) {
      if (!add(one)) return std::nullopt;
    }
    return found;
  }

  // The tables of [[key]]; none where there are none.
  [[nodiscard]] std::vector<const toml::table*> tables(std::string_view key,
                                                       std::string_view header) {
    std::vector<const toml::table*> found;
    const toml::node* const node = find(key);
    if (node == nullptr) return found;
    const auto* const list = node->as_array();
    if (list == nullptr) {
      wrong_type(key, *node, fmt::format("a list of tables: each begins with [[{}]]", header));
      return found;
    }
    for (const toml::node& one : *list) {
      if (one.is_table()) {
        found.push_back(one.as_table());
      } else {
        wrong_type(key, one, fmt::format("a list of tables: each begins with [[{}]]", header));
      }
    }
    return found;
  }

  [[nodiscard]] const toml::table* table(std::string_view key) {
    const toml::node* const node = find(key);
    if (node == nullptr || node->is_table()) return node == nullptr ? nullptr : node->as_table();
    wrong_type(key, *node, fmt::format("a table: it begins with [{}]", key));
    return nullptr;
  }

  // Last of all: what nobody asked for.
  void refuse_unknown() {
    for (const auto& [key, node] : table_) {
      if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
      fault(key.source().begin.line,
            fmt::format("\"{}\" is no key of it: {}", key.str(),
                        remedy(key.str(), {asked_.begin(), asked_.end()})));
    }
  }

  std::nullopt_t wrong_type(std::string_view key, const toml::node& node,
                            const std::string& what_is_right) {
    fault(line_of(node),
          fmt::format("{} is {}, and must be {}", key, kind_of(node), what_is_right));
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::optional<std::uint32_t> in_range(std::string_view key, const toml::node& node,
                                                      std::int64_t value, std::uint32_t least,
                                                      std::uint32_t most) {
    if (value >= std::int64_t{least} && value <= std::int64_t{most}) {
      return static_cast<std::uint32_t>(value);
    }
    fault(line_of(node),
          fmt::format("{} is {}, and must be from {} to {}", key, value, least, most));
    return std::nullopt;
  }

  const toml::table& table_;
  std::string title_;
  std::vector<Fault>& faults_;
  std::vector<std::string_view> asked_;
};

}  // namespace pail::policy
