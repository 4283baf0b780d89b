#include "server/policy/nesting.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pail::policy {
namespace {

// As much of TOML as tells what is text and what is a comment. Where it is in doubt the file is no
// TOML, and the parser stops there at the latest.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  [[nodiscard]] std::optional<Fault> scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        if (!skip_string(c)) return std::nullopt;
        continue;
      }
      ++at_;
      switch (c) {
        case '#':
          at_ = std::min(text_.find('\n', at_), text_.size());
          break;
        case '.':
          if (++dots_ < kMaxKeyParts) break;
          return Fault{line_, fmt::format("a key has more than {} parts: write it as name = value, "
                                          "below a [table] or [[table]]",
                                          kMaxKeyParts)};
        case '[':
        case '{':
          dots_ = 0;
          if (++brackets_ <= kMaxBrackets) break;
          return Fault{line_, fmt::format("brackets stand in more than {} others: a list is "
                                          "[1, 2], and a policy begins with [[policy]]",
                                          kMaxBrackets)};
        case ']':
        case '}':
          dots_ = 0;
          if (brackets_ != 0) --brackets_;
          break;
        case '\n':
          ++line_;
          dots_ = 0;
          break;
        case '=':
        case ',':
          dots_ = 0;
          break;
        default:
          break;
      }
    }
    return std::nullopt;
  }

 private:
  // False: it has no end.
  bool skip_string(char quote) {
    const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
    const bool is_long = text_.substr(at_).starts_with(three);
    const bool has_escapes = quote == '"';
    for (at_ += is_long ? 3 : 1; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!is_long) return false;
        ++line_;
      } else if (c == '\\' && has_escapes) {
        if (text_.substr(at_).starts_with("\\\n")) ++line_;
        ++at_;
      } else if (c == quote && !is_long) {
        ++at_;
        return true;
      } else if (c == quote && text_.substr(at_).starts_with(three)) {
        at_ += 3;
        // One or two quotes more belong to the text.
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
        return true;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::size_t dots_ = 0;
  std::size_t brackets_ = 0;
};

}  // namespace

std::optional<Fault> fault_in_nesting(std::string_view text) {
  return Scanner(text).scan();
}

}  // namespace pail::policy
