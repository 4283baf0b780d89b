// Concern: what the front end answers is what the arithmetic says, frame by frame, for any stream.
// Method: the fuzzer's harness, which has a model beside the front end, on golden and on
// random requests, and on changes of them.
#include <doctest/doctest.h>

#include "tests/fuzz/native_harness.hpp"
#include "tests/support/vectors.hpp"

namespace pail::test {
namespace {

// One of every golden request that a connection survives, and requests that meet.
Octets any_stream(Random& random) {
  Octets stream;
  for (const Vector& vector : load_vectors("requests.txt")) {
    if (vector.message != "request" || vector.is_fatal() || vector.bytes.size() > 200) continue;
    stream.insert(stream.end(), vector.bytes.begin(), vector.bytes.end());
  }
  const Octets session = native_session(random, random.between(1, 60));
  stream.insert(random.one_in(2) ? stream.begin() : stream.end(), session.begin(), session.end());
  return stream;
}

Octets with_head(std::uint8_t flags, std::uint64_t chunks, const Octets& stream) {
  Octets input = {std::byte{flags}, static_cast<std::byte>(chunks)};
  input.insert(input.end(), stream.begin(), stream.end());
  return input;
}

TEST_CASE("good requests, for every table, clock and size of chunks") {
  Random random;
  for (unsigned flags = 0; flags < 256; ++flags) {
    const auto input =
        with_head(static_cast<std::uint8_t>(flags), random.next(), any_stream(random));
    CAPTURE(to_hex(input));
    CHECK_NOTHROW(check_native_input(input));
  }
}

TEST_CASE("the same with some bytes changed, and random bytes") {
  Random random;
  for (int round = 0; round < 500; ++round) {
    Octets stream = any_stream(random);
    for (std::uint64_t changes = random.between(1, 8); changes > 0; --changes) {
      stream[random.below(stream.size())] = static_cast<std::byte>(random.next());
    }
    if (random.one_in(10)) stream = random_bytes(random, random.between(1, 4096));
    const auto input = with_head(static_cast<std::uint8_t>(random.next()), random.next(), stream);
    CAPTURE(to_hex(input));
    CHECK_NOTHROW(check_native_input(input));
  }
}

}  // namespace
}  // namespace pail::test
