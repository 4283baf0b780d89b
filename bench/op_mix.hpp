// Which operation a request is, where a run mixes several: a function of its tag alone, so that
// whoever checks the reply knows it without having been told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "protocol/messages.hpp"

namespace pail::bench {

class OpMix {
 public:
  // Takes only.
  OpMix() { ops_.fill(protocol::Op::take); }

  // `percent` of the requests are PEEK, 0 to 100, spread evenly.
  [[nodiscard]] static OpMix with_peeks(std::uint32_t percent);

  [[nodiscard]] bool is_takes_only() const noexcept { return peek_percent_ == 0; }
  [[nodiscard]] std::uint32_t peek_percent() const noexcept { return peek_percent_; }
  [[nodiscard]] protocol::Op op_of(std::uint32_t tag) const noexcept { return ops_[tag % kSlots]; }

 private:
  static constexpr std::uint32_t kSlots = 100;

  std::array<protocol::Op, kSlots> ops_{};
  std::uint32_t peek_percent_ = 0;
};

// "take", "peek", or shares that add up to 100: "take:90,peek:10". The error is for the user.
[[nodiscard]] tl::expected<OpMix, std::string> parse_mix(std::string_view text);
[[nodiscard]] std::string format_mix(const OpMix& mix);

}  // namespace pail::bench
