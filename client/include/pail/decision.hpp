// The answer to a TAKE or a PEEK.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace pail {

struct Decision {
  enum class Status : std::uint8_t {
    admitted,
    denied,  // no budget now; retry_after says when
    shed,    // refused by a reserve that is kept for higher priorities; retry_after says when
    never,   // the cost exceeds what can ever be granted: do not retry
  };
  // Where the decision was made. Local answers (leases, fallbacks) will have values of their own.
  enum class Source : std::uint8_t { server };

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

  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  [[nodiscard]] bool admitted() const noexcept { return status == Status::admitted; }
};

// "admitted", "denied", "shed", "never".
[[nodiscard]] std::string_view name(Decision::Status status) noexcept;

}  // namespace pail
