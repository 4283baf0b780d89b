// The body of a STATS reply: named numbers, one behind the other. A number carries its own name, so
// a server may count something new without any client being the wiser.
//
//     0    1    2                2 + n      10 + n
//    +----+----+----------------+----------+
//    |kind| n  | name           | u64 value|
//    +----+----+----------------+----------+
#pragma once

#include <optional>

#include "protocol/codec.hpp"

namespace pail::protocol {

inline constexpr std::size_t kMaxStatNameBytes = 64;
inline constexpr std::size_t kMaxStatBytes = 2 + kMaxStatNameBytes + 8;
inline constexpr std::size_t kMaxStatsBodyBytes = 8 * 1024;
static_assert(kReplyHeaderBytes + kMaxStatsBodyBytes <= kMaxFrameBytes);

enum class StatKind : std::uint8_t {
  counter = 0,  // only grows while the server runs
  gauge = 1,    // goes up and down
};

struct Stat {
  StatKind kind = StatKind::counter;  // may be a number that is not listed
  std::string_view name;              // 1 to 64 of a-z 0-9 _
  std::uint64_t value = 0;
  friend bool operator==(const Stat&, const Stat&) = default;
};

// The bytes written: at most kMaxStatBytes, which `out` must have room for.
std::size_t encode(const Stat& stat, Buffer out) noexcept;

// Takes the first number off `body`, borrowing its name. Nothing: it is not whole, or its name
// breaks the rule.
[[nodiscard]] std::optional<Stat> take_stat(Bytes& body) noexcept;

}  // namespace pail::protocol
