// From the words of the public interface to those of the protocol and back. Values in, values out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <pail/client.hpp>
#include "client/src/connection.hpp"
#include "protocol/messages.hpp"

namespace pail::internal {

[[nodiscard]] tl::unexpected<Error> bad_argument(std::string text);

// Whether a call, or connecting, may take so long.
[[nodiscard]] bool is_fitting_wait(std::chrono::nanoseconds wait);
[[nodiscard]] Result<void> check(const ClientOptions& options);
[[nodiscard]] Result<void> check(const Limit& limit, std::string_view key,
                                 const CallOptions& options);

// It borrows the key.
[[nodiscard]] protocol::Request make_request(protocol::Op op, const Limit& limit,
                                             std::string_view key);

// The server answered that it did not decide; so nothing was charged.
[[nodiscard]] Error refusal_to_decide(const Answer& answer, const std::string& address,
                                      const Limit* limit);
[[nodiscard]] std::chrono::nanoseconds to_duration(std::uint64_t wait_ns);
[[nodiscard]] Decision to_decision(const protocol::Reply& reply);

// False: the page breaks the protocol, or nothing ends.
[[nodiscard]] bool append_page(const Answer& page, ServerStats& stats);

}  // namespace pail::internal
