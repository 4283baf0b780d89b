#include <pail/token.hpp>

#include <fstream>
#include <iomanip>

#include "protocol/messages.hpp"

namespace pail {

Result<std::string> token_from_file(const std::string& path) {
  const auto wrong = [&](const char* what) {
    return tl::unexpected(Error{ErrorCode::bad_argument, "token file " + path + ": " + what});
  };
  std::ifstream file(path);
  if (!file) return wrong("cannot be read");
  std::string token, more;
  // No more than what is too much already: the file may be a device that never ends.
  file >> std::setw(protocol::kMaxTokenBytes + 2) >> token >> std::setw(2) >> more;
  if (token.empty()) return wrong("there is no token in it");
  if (!more.empty())
    return wrong("it holds more than one word: a client's file is the token alone");
  if (token.size() > protocol::kMaxTokenBytes) return wrong("the token is longer than 256 bytes");
  return token;
}

}  // namespace pail
