// What can go wrong between a caller and the server, as a value.
//
// A refusal is not an error: see decision.hpp. An error means that no decision was made, or that
// its answer was not received; what to do with the request is then the caller's policy (let it
// pass, or not).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace pail {

enum class ErrorCode : std::uint8_t {
  timeout,  // no answer within the deadline of the call, or no connection within its timeout
  connection_refused,  // nothing listens at the address
  unreachable,         // the address cannot be reached: no route, no such socket, no such host
  closed,              // the connection ended, or there is none now
  protocol_error,      // the peer does not speak Pail's protocol, or broke it
  version_mismatch,    // the peer speaks no protocol version that this library speaks
  bad_argument,        // the call itself is wrong, and would be wrong again
  unknown_policy,      // the server has no policy of this name
  table_full,          // the server has no memory for a new key
  unauthorized,        // the server wants a token, or another one
  overloaded,          // the server refuses work for now
  not_supported,       // the server does not know this operation
  circuit_open,        // the server left too many calls unanswered; it is not asked for now
  too_many_in_flight,  // this connection already waits for ClientOptions::max_in_flight answers
  system,              // the operating system refused something; the text says what
};

// "timeout", "connection_refused": for logs, metrics and JSON.
[[nodiscard]] std::string_view name(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::system;
  // For people: what happened, with whom, and what would be right.
  std::string text;
  // True if the request may have reached the server, which may have charged it: its fate is
  // unknown, so a TAKE must not be repeated as if nothing had happened. False: it never left, or
  // was not charged.
  bool maybe_charged = false;
};

template <class T>
using Result = tl::expected<T, Error>;

}  // namespace pail
