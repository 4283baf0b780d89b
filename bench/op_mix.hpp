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
  static constexpr std::uint32_t kSlots = 100;
  // What a mix may be of, and how users name it.
  struct Kind {
    protocol::Op op;
    std::string_view name;
  };
  static constexpr std::array<Kind, 4> kKinds{{{protocol::Op::take, "take"},
                                               {protocol::Op::peek, "peek"},
                                               {protocol::Op::lease, "lease"},
                                               {protocol::Op::take_all, "layers"}}};
  using Percents = std::array<std::uint32_t, kKinds.size()>;  // in the order of kKinds

  // Takes only.
  OpMix() { ops_.fill(protocol::Op::take); }
  // The percents add up to 100. Each kind is spread evenly: 10 % is every tenth, not the first ten.
  explicit OpMix(const Percents& percents);

  [[nodiscard]] bool is_takes_only() const noexcept { return percents_[0] == kSlots; }
  [[nodiscard]] std::uint32_t percent_of(protocol::Op op) const noexcept;
  [[nodiscard]] bool has(protocol::Op op) const noexcept { return percent_of(op) != 0; }
  [[nodiscard]] protocol::Op op_of(std::uint32_t tag) const noexcept { return ops_[tag % kSlots]; }

 private:
  std::array<protocol::Op, kSlots> ops_{};
  Percents percents_{kSlots};
};

// "take", "peek", "lease", "layers", or shares that add up to 100: "take:90,peek:10". The error is
// for the user.
[[nodiscard]] tl::expected<OpMix, std::string> parse_mix(std::string_view text);
[[nodiscard]] std::string format_mix(const OpMix& mix);

}  // namespace pail::bench
