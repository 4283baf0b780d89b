// How deep a file nests, looked at before it is parsed: the parser calls itself once for each part
// of a key and for each bracket, and so would a file of one long line end the server that starts.
#pragma once

#include <optional>
#include <string_view>

#include "server/policy/file.hpp"

namespace pail::policy {

inline constexpr std::size_t kMaxKeyParts = 8;  // policy.override has two
inline constexpr std::size_t kMaxBrackets = 8;  // [[policy]] has two

// The first place that is too deep. What is not TOML is left to the parser, which reads no further.
[[nodiscard]] std::optional<Fault> fault_in_nesting(std::string_view text);

}  // namespace pail::policy
