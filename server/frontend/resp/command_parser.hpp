// One command of RESP out of bytes: a pure function.
#pragma once

#include "server/frontend/resp/command_reader.hpp"

namespace pail::frontend::resp {

struct Parsed {
  enum class State : std::uint8_t { whole, partial, wrong };
  State state = State::partial;
  std::size_t size = 0;         // whole: the bytes that it took
  std::string_view fault = {};  // wrong: static text
};

// `bytes` is where a command begins. A command of no words (an empty line, an empty array) is whole
// and has the count 0. No command is larger than `limit`.
[[nodiscard]] Parsed parse_command(std::string_view bytes, std::size_t limit,
                                   Command& command) noexcept;

}  // namespace pail::frontend::resp
