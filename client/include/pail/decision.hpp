// The answer to a TAKE or a PEEK.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <pail/error.hpp>

namespace pail {

struct Decision {
  enum class Status : std::uint8_t {
    admitted,
    denied,  // no budget now; retry_after says when
    shed,    // refused by a reserve that is kept for higher priorities; retry_after says when
    never,   // the cost exceeds what can ever be granted: do not retry
  };
  // Where the decision was made.
  enum class Source : std::uint8_t {
    server,
    lease,            // in this process, of tokens that the server leased ahead, or of its refusal
    limiter,          // in this process, by pail::Limiter
    fallback_open,    // nowhere: OnFailure::open
    fallback_closed,  // nowhere: OnFailure::closed, or `local` where that is not possible
    fallback_local,   // in this process: OnFailure::local
  };

  Status status = Status::denied;
  Source source = Source::server;
  std::uint32_t granted = 0;    // tokens charged; a PEEK: that a TAKE would be granted
  std::uint32_t remaining = 0;  // tokens that another TAKE could have then
  std::uint32_t limit = 0;      // the most that can be taken at once: the burst
  // Refused: how long to wait; a caller alone on the key who waits this long is admitted. Zero if
  // admitted, kForever if `never`.
  std::chrono::nanoseconds retry_after{0};
  std::chrono::nanoseconds reset_after{0};  // until the key is as good as new
  std::chrono::nanoseconds hold{0};  // admitted by a queueing policy: send the request after this
  // Admitted by acquire(), renew(), or a take() with CallOptions::settle_later: what settle(),
  // renew() and release() name. It is good until `grant_expires`, which is counted from before the
  // request was sent. 0: none.
  std::uint64_t grant = 0;
  std::chrono::steady_clock::time_point grant_expires{};
  // Why there is no decision of the server, where `source` is a fallback.
  std::optional<ErrorCode> failure = std::nullopt;

  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  [[nodiscard]] bool admitted() const noexcept { return status == Status::admitted; }
  // No server decided: of the numbers only what a local bucket says means anything.
  [[nodiscard]] bool is_fallback() const noexcept { return source >= Source::fallback_open; }
};

// What take_all() tells about one layer.
struct LayerState {
  std::uint32_t remaining = 0;
  std::uint32_t limit = 0;
  std::chrono::nanoseconds reset_after{0};
};

// All layers together: of the tightest the numbers, of the times the longest.
struct LayersDecision {
  Decision decision;
  std::optional<std::size_t> refusing;  // the layer that refused
  std::vector<LayerState> layers;       // in the order that they were given in

  [[nodiscard]] bool admitted() const noexcept { return decision.admitted(); }
};

// "admitted", "denied", "shed", "never".
[[nodiscard]] std::string_view name(Decision::Status status) noexcept;

// "server", "fallback_open", ...
[[nodiscard]] std::string_view name(Decision::Source source) noexcept;

}  // namespace pail
