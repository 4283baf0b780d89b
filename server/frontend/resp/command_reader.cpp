#include "server/frontend/resp/command_reader.hpp"

#include <algorithm>
#include <cstring>

#include "server/frontend/resp/command_parser.hpp"

namespace pail::frontend::resp {
namespace {

constexpr std::string_view kEndless = "a command is at most 16384 bytes, 1024 before AUTH";

}  // namespace

bool CommandReader::next(Command& command) noexcept {
  while (fault_.empty()) {
    if (held_ != 0) {
      if (!next_carried(command)) return false;
    } else {
      const Parsed parsed = parse_command(rest_, limit_, command);
      if (parsed.state == Parsed::State::wrong) return fail(parsed.fault);
      if (parsed.state == Parsed::State::partial) {
        return rest_.size() < limit_ ? false : fail(kEndless);
      }
      rest_.remove_prefix(parsed.size);
    }
    if (command.count != 0) return true;
  }
  return false;
}

// Tops the carry buffer up, step by step, until it holds the command that it has the beginning of:
// how much is missing is known only once more of it is there.
bool CommandReader::next_carried(Command& command) noexcept {
  constexpr std::size_t kFirstStep = 128;
  const std::size_t held_before = held_;
  for (std::size_t step = kFirstStep;; step *= 2) {
    const std::string_view rest = rest_.substr(held_ - held_before);
    const std::size_t size = std::min({step, rest.size(), carry_bytes_ - held_});
    if (size != 0) std::memcpy(carry_ + held_, rest.data(), size);
    held_ += size;
    const Parsed parsed = parse_command({carry_, held_}, limit_, command);
    if (parsed.state == Parsed::State::wrong) return fail(parsed.fault);
    if (parsed.state == Parsed::State::whole) {
      rest_.remove_prefix(parsed.size - held_before);
      held_ = 0;
      return true;
    }
    if (held_ >= limit_) return fail(kEndless);
    if (size == rest.size()) {
      rest_ = {};
      return false;
    }
  }
}

void CommandReader::end_chunk() noexcept {
  if (rest_.empty() || !fault_.empty()) return;
  assert(held_ == 0 && rest_.size() < carry_bytes_);
  std::memcpy(carry_, rest_.data(), rest_.size());
  held_ = rest_.size();
  rest_ = {};
}

bool CommandReader::fail(std::string_view reason) noexcept {
  fault_ = reason;
  rest_ = {};
  held_ = 0;
  return false;
}

}  // namespace pail::frontend::resp
