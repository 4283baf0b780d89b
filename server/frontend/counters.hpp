// Counters of one thread that any other may read: plain stores, no sharing, no lock prefix.
//
// An enumeration names them, a table labels them, and a static_assert in between keeps the two in
// step. Only the owning thread adds, so a load and a store do; relaxed, because a reader wants
// recent numbers and no order among them.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/messages.hpp"

namespace pail::frontend {

template <class Name, std::size_t kCount>
class Counters {
 public:
  void add(Name name, std::uint64_t n = 1) noexcept {
    std::atomic<std::uint64_t>& value = values_[static_cast<std::size_t>(name)];
    value.store(value.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(Name name, std::uint64_t n) noexcept {
    values_[static_cast<std::size_t>(name)].store(n, std::memory_order_relaxed);
  }
  // From any thread.
  [[nodiscard]] std::uint64_t read(std::size_t index) const noexcept {
    return values_[index].load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t read(Name name) const noexcept {
    return read(static_cast<std::size_t>(name));
  }

 private:
  alignas(64) std::array<std::atomic<std::uint64_t>, kCount> values_{};
};

// What the native front end counts. Statuses come first, in the wire's order.
enum class NativeCount : std::uint8_t {
  first_status,
  frames = protocol::kStatusCount,
  batches,
  batches_of_1,  // by size; log2, so that one shift finds the counter
  batches_of_2,
  batches_of_4,
  batches_of_8,
  batches_of_16,
  batches_of_32,
  batches_of_64,
  hellos,
  malformed,      // fatal: answered and closed
  refused_hello,  // no HELLO first, or one that could not be accepted
  unauthorized_hello,
};
inline constexpr std::size_t kNativeCounts =
    static_cast<std::size_t>(NativeCount::unauthorized_hello) + 1;
inline constexpr std::array<std::string_view, kNativeCounts> kNativeCountLabels = {
    "replies_ok",
    "replies_denied",
    "replies_shed",
    "replies_never",
    "replies_table_full",
    "replies_expired",
    "replies_unknown_policy",
    "replies_bad_request",
    "replies_unauthorized",
    "replies_overloaded",
    "replies_not_supported",
    "frames",
    "batches",
    "batches_of_1",
    "batches_of_2_to_3",
    "batches_of_4_to_7",
    "batches_of_8_to_15",
    "batches_of_16_to_31",
    "batches_of_32_to_63",
    "batches_of_64",
    "hellos",
    "malformed",
    "refused_hellos",
    "unauthorized_hellos"};
static_assert(!kNativeCountLabels.back().empty());

[[nodiscard]] constexpr NativeCount count_of(protocol::Status status) noexcept {
  return static_cast<NativeCount>(status);
}

[[nodiscard]] constexpr NativeCount count_of_batch(std::size_t size) noexcept {
  return static_cast<NativeCount>(static_cast<std::size_t>(NativeCount::batches_of_1) +
                                  static_cast<std::size_t>(std::bit_width(size)) - 1);
}

using NativeCounters = Counters<NativeCount, kNativeCounts>;

}  // namespace pail::frontend
