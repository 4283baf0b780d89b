// Flags that were given elsewhere than on the command line: in the environment as PAIL_NAME, in the
// file as a key of [server]. The command line goes before the environment, and that before the
// file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/policy/file.hpp"

namespace CLI {
class App;
}

namespace pail::server {

// Of the environment, or null.
using Environment = std::function<const char*(const std::string&)>;

// For an App that has parsed its command line. The error names the variable, or file and line, and
// says what would be right; empty: there is none.
[[nodiscard]] std::string apply_environment(CLI::App& app, const Environment& environment);
[[nodiscard]] std::string apply_settings(CLI::App& app, const std::string& file,
                                         const std::vector<policy::Setting>& settings);

}  // namespace pail::server
