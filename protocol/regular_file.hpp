// A whole file that people gave by name: a token, policies. Only a regular one of a bounded size: a
// FIFO would be waited for, and a device may have no end.
#pragma once

#include <sys/types.h>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace pail::protocol {

struct RegularFile {
  std::string_view text;  // the front of the buffer
  mode_t mode = 0;        // as of stat(2)
};

// Into the buffer of the caller, who may have to wipe it; one byte of it stays free, which is how
// "larger than" is told. Links are followed. The error says what is wrong, without the path.
[[nodiscard]] tl::expected<RegularFile, std::string> read_regular_file(const std::string& path,
                                                                       std::span<char> buffer);

}  // namespace pail::protocol
