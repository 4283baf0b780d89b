#include <pail/token.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "protocol/messages.hpp"

namespace pail {
namespace {

// A token, and room for whoever puts empty lines around it.
constexpr std::size_t kMaxFileBytes = 4096;
constexpr std::string_view kSpaces = " \t\r\n\v\f";

}  // namespace

Result<std::string> token_from_file(const std::string& path) {
  const auto wrong = [&](const char* what) {
    return tl::unexpected(Error{ErrorCode::bad_argument, "token file " + path + ": " + what});
  };
  // Without waiting: a FIFO that nobody writes to would be waited for when it is opened already.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return wrong("cannot be read");
  struct stat status {};
  const bool is_file = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  std::string text(kMaxFileBytes + 1, '\0');
  std::size_t size = 0;
  ssize_t got = is_file ? 1 : 0;
  while (got > 0 && size < text.size()) {
    got = ::read(file, text.data() + size, text.size() - size);
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  ::close(file);
  if (!is_file) return wrong("is not a regular file");
  if (got < 0) return wrong("cannot be read");
  if (size > kMaxFileBytes) return wrong("is too large for a token alone");
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
