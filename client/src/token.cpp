#include <pail/token.hpp>

#include <algorithm>
#include <string_view>

#include "protocol/messages.hpp"
#include "protocol/regular_file.hpp"

namespace pail {
namespace {

// A token, and room for whoever puts empty lines around it.
constexpr std::size_t kMaxFileBytes = 4096;
constexpr std::string_view kSpaces = " \t\r\n\v\f";

}  // namespace

Result<std::string> token_from_file(const std::string& path) {
  const auto wrong = [&](std::string_view what) {
    return tl::unexpected(
        Error{ErrorCode::bad_argument, "token file " + path + ": " + std::string(what)});
  };
  std::string text(kMaxFileBytes + 1, '\0');
  const auto file = protocol::read_regular_file(path, text);
  if (!file) return wrong(file.error());
  const std::size_t size = file->text.size();
  text.resize(size);
  const auto begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return wrong("there is no token in it");
  const auto end = std::min(text.find_first_of(kSpaces, begin), size);
  if (text.find_first_not_of(kSpaces, end) != std::string::npos) {
    return wrong("it holds more than one word: a client's file is the token alone");
  }
  if (end - begin > protocol::kMaxTokenBytes) return wrong("the token is longer than 256 bytes");
  return text.substr(begin, end - begin);
}

}  // namespace pail
