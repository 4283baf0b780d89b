// Changes as words of a command line: "rate=200/s", "mode=shadow", "for=1h".
#pragma once

#include "server/policy/store.hpp"

namespace pail::policy {

// Sets what the word says. Empty, or what is wrong and what would be right.
[[nodiscard]] std::string apply_word(const std::string& word, engine::Algorithm algorithm,
                                     Change& change);
[[nodiscard]] std::string apply_word(const std::string& word, engine::Algorithm algorithm,
                                     std::int64_t now_s, Override& override);

// "0.5": in millionths, from 0.000001 to 1000.
[[nodiscard]] Parsed<std::uint32_t> parse_factor(std::string_view text);
// The end of "for=10min" from now on.
[[nodiscard]] Parsed<std::int64_t> parse_for(std::string_view word, std::int64_t now_s);

}  // namespace pail::policy
