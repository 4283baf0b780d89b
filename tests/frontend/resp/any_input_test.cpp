// Concern: whatever bytes come, they are answered in RESP, one answer a command, however the stream
// is cut. Method: the fuzzer's harness, on sessions that meet and on changes of them.
#include <doctest/doctest.h>

#include "tests/fuzz/resp_harness.hpp"
#include "tests/support/random.hpp"

using namespace pail::test;

TEST_CASE("sessions, some of them one after the other, with some bytes changed") {
  Random random;
  const auto& sessions = resp_sessions();
  for (int round = 0; round < 1'000; ++round) {
    std::string input = {static_cast<char>(random.next()), static_cast<char>(random.below(4))};
    for (std::uint64_t parts = random.between(1, 4); parts > 0; --parts) {
      input += sessions[random.below(sessions.size())];
    }
    if (!random.one_in(4)) {
      for (std::uint64_t changes = random.between(1, 8); changes > 0; --changes) {
        input[2 + random.below(input.size() - 2)] = static_cast<char>(random.next());
      }
    }
    CAPTURE(input);
    CHECK_NOTHROW(check_resp_input(pail::protocol::as_body(input)));
  }
}
