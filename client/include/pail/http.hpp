// A decision in HTTP's words.
#pragma once

#include <cstdint>
#include <optional>

#include <pail/decision.hpp>

namespace pail::http {

// 200 for an admitted request, 429 (RFC 6585) for a refused one.
[[nodiscard]] int status(const Decision& decision) noexcept;

// Retry-After (RFC 9110, 10.2.3) of a refused request in whole seconds: rounded up, so that it is
// never too early, and at least 1. None for an admitted one, and for one that can never be
// admitted.
[[nodiscard]] std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept;

}  // namespace pail::http
