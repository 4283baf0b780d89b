// What a completion belongs to, in the 64 bits that the kernel carries for us.
#pragma once

#include <cstdint>

namespace pail::io {

enum class Operation : std::uint8_t { none, accept, receive, send, wake };

// A slot of its owner's table, and which tenant of the slot is meant: a completion that arrives
// after its connection has gone carries an old generation and is ignored. Generations count modulo
// 2^24, which a slot would have to wrap around while one operation of its first tenant is still in
// flight.
struct Key {
  Operation operation = Operation::none;
  std::uint32_t generation = 0;
  std::uint32_t slot = 0;

  static constexpr std::uint32_t kGenerationMask = 0x00FF'FFFF;

  [[nodiscard]] constexpr std::uint64_t packed() const noexcept {
    return std::uint64_t{static_cast<std::uint8_t>(operation)} << 56 |
           std::uint64_t{generation & kGenerationMask} << 32 | slot;
  }
  [[nodiscard]] static constexpr Key unpack(std::uint64_t packed) noexcept {
    return Key{static_cast<Operation>(packed >> 56),
               static_cast<std::uint32_t>(packed >> 32) & kGenerationMask,
               static_cast<std::uint32_t>(packed)};
  }
  friend constexpr bool operator==(Key, Key) = default;
};

static_assert(Key::unpack(Key{Operation::send, 0xABCDEF, 0x12345678}.packed()) ==
              Key{Operation::send, 0xABCDEF, 0x12345678});

}  // namespace pail::io
