// Policies as a file says them: what write_policies() writes, parse_file() reads as the same.
#pragma once

#include "server/policy/file.hpp"

namespace pail::policy {

// Every key that matters, the defaults written out.
[[nodiscard]] std::string write_policies(const std::vector<Definition>& definitions);
[[nodiscard]] std::string write_unknown(const Unknown& unknown);  // in front of them

// In quotes, with what a quoted text of TOML cannot hold escaped.
[[nodiscard]] std::string quoted(std::string_view text);

[[nodiscard]] Numbers numbers_of(const engine::PolicySpec& spec);
[[nodiscard]] Definition definition_of(const engine::PolicySpec& spec);

}  // namespace pail::policy
