// What several kinds of commands answer alike.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/engine/request.hpp"

namespace pail::frontend::resp {

// Errors begin with their code, as in Redis.
inline constexpr std::string_view kOverloaded =
    "OVERLOADED more is asked than can be answered in time; nothing was charged";
inline constexpr std::string_view kNoRoom = "OOM no room for a new key";

// Rounded up; -1: for ever.
[[nodiscard]] constexpr std::int64_t whole_ms(std::uint64_t ns) noexcept {
  if (ns == engine::kWaitForever) return -1;
  return static_cast<std::int64_t>(ns / 1'000'000 + (ns % 1'000'000 != 0 ? 1 : 0));
}

}  // namespace pail::frontend::resp
