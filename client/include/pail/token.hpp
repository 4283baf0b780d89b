// Where a client's token comes from, other than its own code.
#pragma once

#include <string>

#include <pail/error.hpp>

namespace pail {

// The token in a file: one word of 1 to 256 printable characters. Errors: bad_argument, which never
// repeats what is in the file.
[[nodiscard]] Result<std::string> token_from_file(const std::string& path);

}  // namespace pail
