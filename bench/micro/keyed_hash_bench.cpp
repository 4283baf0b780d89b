// What a keyed hash of a key costs: SipHash-1-3 with a 128-bit result, which the engine uses,
// against XXH3-128 under a random secret of 192 bytes, which was the other candidate. Keys come
// from a list that fits the cache, one after the other, as in a batch: no hash waits for the one
// before. Usage: keyed-hash-bench
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "bench/micro/stopwatch.hpp"
#include "server/engine/keyed_hash.hpp"

namespace pail::bench {
namespace {

using engine::Identity;
using engine::KeyHash;

constexpr std::size_t kKeys = 1024;
constexpr std::size_t kRounds = 500;

// The same interface as engine::SipKeyHasher. XXH3 has no state to resume for short messages, so
// the identity's fixed part and the key are brought together first.
class Xxh3KeyHasher {
 public:
  struct Prefix {
    std::array<std::uint64_t, 2> blocks;
    const unsigned char* secret;
  };

  Xxh3KeyHasher() {
    std::random_device device;
    for (unsigned char& byte : secret_) byte = static_cast<unsigned char>(device());
  }

  [[nodiscard]] Prefix prefix(const Identity& identity) const {
    return {identity.blocks(), secret_.data()};
  }

  [[nodiscard]] static KeyHash hash(const Prefix& prefix, std::span<const std::byte> key) {
    alignas(16) unsigned char message[sizeof(prefix.blocks) + 1024];
    std::memcpy(message, prefix.blocks.data(), sizeof(prefix.blocks));
    std::memcpy(message + sizeof(prefix.blocks), key.data(), key.size());
    const XXH128_hash_t hash = XXH3_128bits_withSecret(message, sizeof(prefix.blocks) + key.size(),
                                                       prefix.secret, kSecretBytes);
    return {.high = hash.high64, .low = hash.low64};
  }

  // Without any identity: the least that it could cost.
  [[nodiscard]] static KeyHash hash_key_alone(const Prefix& prefix,
                                              std::span<const std::byte> key) {
    const XXH128_hash_t hash =
        XXH3_128bits_withSecret(key.data(), key.size(), prefix.secret, kSecretBytes);
    return {.high = hash.high64, .low = hash.low64};
  }

 private:
  static constexpr std::size_t kSecretBytes = 192;
  std::array<unsigned char, kSecretBytes> secret_{};
};

template <class Hash>
double measure(const std::vector<std::byte>& keys, std::size_t size, Hash&& hash) {
  return median_ns(kKeys * kRounds, [&] {
    std::uint64_t sum = 0;
    for (std::size_t round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kKeys; ++i) {
        const KeyHash result = hash(std::span(keys).subspan(i * size, size));
        sum += result.high ^ result.low;
      }
      keep(sum);
    }
  });
}

void compare(std::size_t size) {
  std::vector<std::byte> keys(kKeys * size);
  std::mt19937_64 random(size);
  for (std::byte& byte : keys) byte = static_cast<std::byte>(random());
  const Identity identity{.kind = Identity::Kind::by_policy,
                          .algorithm = engine::Algorithm::token_bucket,
                          .policy = 0x12345678};
  const engine::SipKeyHasher sip(engine::random_secret());
  const auto sip_prefix = sip.prefix(identity);
  const Xxh3KeyHasher xxh;
  const auto xxh_prefix = xxh.prefix(identity);
  std::printf(
      "%8zu %18.1f %18.1f %18.1f\n", size,
      measure(keys, size, [&](auto key) { return engine::SipKeyHasher::hash(sip_prefix, key); }),
      measure(keys, size, [&](auto key) { return Xxh3KeyHasher::hash(xxh_prefix, key); }),
      measure(keys, size,
              [&](auto key) { return Xxh3KeyHasher::hash_key_alone(xxh_prefix, key); }));
}

}  // namespace
}  // namespace pail::bench

int main() {
  std::printf("ns a key %18s %18s %18s\n", "SipHash-1-3-128", "XXH3-128", "XXH3, key alone");
  for (const std::size_t size : {8U, 16U, 24U, 32U, 64U, 256U, 1024U}) pail::bench::compare(size);
}
