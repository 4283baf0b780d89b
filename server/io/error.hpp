// System errors in words.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "server/io/backend.hpp"

namespace pail::io {

// "bind 127.0.0.1:7245: Address already in use"
[[nodiscard]] inline IoError error_of(std::string_view what, int code) {
  return IoError{code, std::string(what) + ": " + std::system_category().message(code)};
}

}  // namespace pail::io
