#include <pail/http.hpp>

#include <algorithm>

namespace pail::http {

int status(const Decision& decision) noexcept {
  return decision.admitted() ? 200 : 429;
}

std::optional<std::uint64_t> retry_after_seconds(const Decision& decision) noexcept {
  if (decision.admitted() || decision.status == Decision::Status::never) return std::nullopt;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(decision.retry_after).count();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 1));
}

}  // namespace pail::http
