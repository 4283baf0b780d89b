// The hash of keys: SipHash against the official answers, and the identity of a key against every
// way in which two different keys could be taken for one.
#include "server/engine/keyed_hash.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/siphash_lanes.hpp"
#include "tests/engine/siphash_answers.hpp"
#include "tests/support/random.hpp"

using namespace pail::engine;

namespace {

constexpr std::uint64_t kKey0 = 0x0706050403020100;
constexpr std::uint64_t kKey1 = 0x0f0e0d0c0b0a0908;

std::vector<std::byte> counting_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

HashSecret secret_of(std::uint64_t first, std::uint64_t second) {
  HashSecret secret;
  std::memcpy(secret.data(), &first, 8);
  std::memcpy(secret.data() + 8, &second, 8);
  return secret;
}

std::pair<std::uint64_t, std::uint64_t> place(const KeyHasher& hasher, const Identity& identity,
                                              std::string_view key) {
  const KeyHash hash = KeyHasher::hash(hasher.prefix(identity), std::as_bytes(std::span(key)));
  return {hash.high, hash.low};
}

}  // namespace

TEST_CASE("SipHash-2-4-128 gives the official answers") {
  const SipHash128<2, 4> state(kKey0, kKey1);
  for (std::size_t size = 0; size < 64; ++size) {
    CAPTURE(size);
    CHECK(state.finish(counting_bytes(size)) == pail::test::kSipHash24Answers[size]);
  }
}

TEST_CASE("SipHash-1-3-128 of nothing is as published") {
  const SipHash128<1, 3> state(kKey0, kKey1);
  CHECK(state.finish({}) == Hash128{0xbea58827b2bc7ee7, 0x013030dd6adb62fd});
}

TEST_CASE("many messages at once give what they give one by one") {
  pail::test::Random random(3);
  std::vector<SipState> states;
  for (int i = 0; i < 4; ++i) {
    states.emplace_back(random.next(), random.next());
    for (int block = 0; block < i; ++block) states.back().absorb(random.next());
  }
  const std::vector<std::byte> bytes = counting_bytes(1100);
  for (int round = 0; round < 2000; ++round) {
    // Runs of keys of like size, as batches have, and any others between them.
    std::vector<SipMessage> messages(random.next() % 40);
    std::size_t size = 16;
    for (SipMessage& message : messages) {
      if (random.next() % 8 == 0) size = random.next() % (random.next() % 4 == 0 ? 1025 : 33);
      const std::size_t longer = random.next() % 2 == 0 ? 0 : random.next() % 8;
      message = {&states[random.next() % states.size()],
                 std::span(bytes).subspan(random.next() % 64, size + longer)};
    }
    std::vector<Hash128> expected;
    for (const SipMessage& message : messages) {
      expected.push_back(message.state->finish(message.rest));
    }
    for (const FinishAll finish : ways_to_finish()) {
      std::vector<Hash128> results(messages.size());
      finish(messages, results.data());
      REQUIRE(results == expected);
    }
  }
}

TEST_CASE("a prefix absorbed beforehand is the same message") {
  for (std::size_t size = 16; size < 64; ++size) {
    const std::vector<std::byte> message = counting_bytes(size);
    SipHash128<2, 4> state(kKey0, kKey1);
    for (std::size_t at = 0; at < 16; at += 8) {
      std::uint64_t block = 0;
      std::memcpy(&block, message.data() + at, 8);
      state.absorb(block);
    }
    CHECK(state.finish(std::span(message).subspan(16)) == pail::test::kSipHash24Answers[size]);
    CHECK(state.finish(std::span(message).subspan(16)) == pail::test::kSipHash24Answers[size]);
  }
}

TEST_CASE("a key's place is the hash of its identity's bytes, at any length and alignment") {
  pail::test::Random random(3);
  const KeyHasher hasher(secret_of(kKey0, kKey1));
  const Identity identity{.kind = Identity::Kind::by_policy,
                          .algorithm = Algorithm::token_bucket,
                          .policy = 0xA1B2C3D4,
                          .window = 0x1122334455667788};
  for (std::size_t size = 1; size <= 1024; ++size) {
    std::vector<std::byte> message(16 + size);
    message[0] = std::byte{1};
    message[1] = std::byte{1};
    std::memcpy(message.data() + 4, &identity.policy, 4);
    std::memcpy(message.data() + 8, &identity.window, 8);
    for (std::size_t i = 0; i < size; ++i) message[16 + i] = static_cast<std::byte>(random.next());
    const Hash128 expected = SipHash128<1, 3>(kKey0, kKey1).finish(message);
    const KeyHash hash = KeyHasher::hash(hasher.prefix(identity), std::span(message).subspan(16));
    CHECK(hash.high == expected.first);
    CHECK(hash.low == expected.second);
  }
}

TEST_CASE("different identities live in different places") {
  const KeyHasher hasher(secret_of(1, 2));
  std::set<std::pair<std::uint64_t, std::uint64_t>> places;
  int identities = 0;
  const auto add = [&](const Identity& identity, const std::string& key) {
    places.insert(place(hasher, identity, key));
    ++identities;
  };
  const auto policy = [](std::uint32_t id, std::uint64_t window = 0) {
    return Identity{.kind = Identity::Kind::by_policy,
                    .algorithm = Algorithm::token_bucket,
                    .policy = id,
                    .window = window};
  };
  for (const std::string key : {"a", "b_c", "a_b", "c", "abc"}) {
    add(Identity{}, key);
    add(policy(1), key);
    add(policy(2), key);
    add(policy(2, 1), key);
  }
  // Zeros at the end, and keys longer than the length byte can tell apart.
  for (std::size_t size = 1; size <= 1024; ++size) add(Identity{}, std::string(size, '\0'));
  // A key that looks like another identity's fixed part.
  add(Identity{}, std::string("\1\1\0\0\1\0\0\0\0\0\0\0\0\0\0\0abc", 19));
  CHECK(places.size() == static_cast<std::size_t>(identities));
}

TEST_CASE("another secret puts every key elsewhere") {
  const KeyHasher one(secret_of(1, 2));
  const KeyHasher other(secret_of(1, 3));
  CHECK(place(one, {}, "key") == place(one, {}, "key"));
  CHECK(place(one, {}, "key") != place(other, {}, "key"));
  CHECK(random_secret() != random_secret());
}
