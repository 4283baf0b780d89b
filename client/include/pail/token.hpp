// Where a client's token comes from, other than its own code.
#pragma once

#include <string>

#include <pail/error.hpp>

namespace pail {

// The token in a file: one word of 1 to 256 printable characters. Reads 4 KiB at most, of a regular
// file only: it neither waits for a pipe nor reads a device. Errors: bad_argument, which never
// repeats what is in the file.
[[nodiscard]] Result<std::string> token_from_file(const std::string& path);

}  // namespace pail
