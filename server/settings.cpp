#include "server/settings.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>

namespace pail::server {
namespace {

// What is about this start, or has a form of its own in the file.
constexpr std::array<std::string_view, 6> kOnlyFlags{"help",         "version", "config",
                                                     "check-config", "policy",  "unknown-policy"};

std::string flag_of(const CLI::Option& option) {
  return option.get_lnames().empty() ? std::string() : option.get_lnames().front();
}

bool is_only_a_flag(const std::string& flag) {
  return flag.empty() || std::find(kOnlyFlags.begin(), kOnlyFlags.end(), flag) != kOnlyFlags.end();
}

// As if it had been on the command line; the fault, or empty.
std::string give(CLI::Option& option, const std::vector<std::string>& values) {
  const bool is_switch = option.get_expected_min() == 0;
  if (is_switch && (values.size() != 1 || (values[0] != "true" && values[0] != "false"))) {
    return "it is true or false";
  }
  if (is_switch && values[0] == "false") return {};
  if (values.empty()) return "it is empty: leave it out";
  if (values.size() > 1 && option.get_items_expected_max() == 1) return "it has one value";
  try {
    for (const std::string& value : values) option.add_result(value);
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    const std::string prefix = "--" + flag_of(option) + ": ";
    return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
  }
  return {};
}

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

std::string variable_of(const std::string& flag) {
  std::string name = "PAIL_" + with(flag, '-', '_');
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

}  // namespace

std::string apply_environment(CLI::App& app, const Environment& environment) {
  for (CLI::Option* option : app.get_options()) {
    const std::string flag = flag_of(*option);
    // The file may be named in the environment, what is asked of this start may not.
    const bool is_in_environment =
        !is_only_a_flag(flag) || flag == "config" || flag == "unknown-policy";
    if (!is_in_environment || option->count() != 0) continue;
    const std::string variable = variable_of(flag);
    const char* const value = environment(variable);
    if (value == nullptr) continue;
    if (const std::string fault = give(*option, {value}); !fault.empty()) {
      return fmt::format("{}={} in the environment: {} (as --{})", variable, value, fault, flag);
    }
  }
  return {};
}

std::string apply_settings(CLI::App& app, const std::string& file,
                           const std::vector<policy::Setting>& settings) {
  std::vector<policy::Fault> faults;
  for (const policy::Setting& setting : settings) {
    const auto& options = app.get_options();
    const auto found = std::find_if(options.begin(), options.end(), [&](const CLI::Option* option) {
      const std::string flag = flag_of(*option);
      return !is_only_a_flag(flag) && with(flag, '-', '_') == setting.name;
    });
    if (found == options.end()) {
      std::vector<std::string> known;
      for (const CLI::Option* option : options) {
        if (!is_only_a_flag(flag_of(*option))) known.push_back(with(flag_of(*option), '-', '_'));
      }
      faults.push_back(
          {setting.line, fmt::format("[server]: \"{}\" is no key of it: {}", setting.name,
                                     policy::remedy(setting.name, known))});
    } else if ((*found)->count() == 0) {
      if (const std::string fault = give(**found, setting.values); !fault.empty()) {
        faults.push_back({setting.line, fmt::format("[server]: {} = {}: {}", setting.name,
                                                    fmt::join(setting.values, ", "), fault)});
      }
    }
  }
  return faults.empty() ? "" : policy::format(file, faults);
}

}  // namespace pail::server
