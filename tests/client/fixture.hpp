// What the tests of the client share: patience, a limit, and a server that behaves.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <pail/client.hpp>

#include "tests/support/stub_server.hpp"

namespace pail::test {

inline const Limit kLimit = Limit::rate(10, std::chrono::seconds(1), 20);

// Long enough for any machine; what ends a call in these tests is never this.
inline ClientOptions patient() {
  ClientOptions options;
  options.deadline = kPatience;
  options.connect_timeout = kPatience;
  options.on_failure = OnFailure::report;
  options.lease_keys = 0;  // scripts know every request that arrives
  return options;
}

inline void answer_everything(Peer& peer) {
  if (!peer.greet()) return;
  while (const auto request = peer.next()) peer.send(admitted(*request));
}

template <class T>
ErrorCode code_of(const Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  CHECK_FALSE(result.error().text.empty());
  return result.error().code;
}

}  // namespace pail::test
