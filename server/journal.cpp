#include "server/journal.hpp"

#include <string>
#include <vector>

#include "protocol/address.hpp"

namespace pail::server {
namespace {

// In the order of the enumeration.
constexpr std::array<FaultKind, kFaults> kKinds = {{
    {{LogLevel::warning, "refused_hello", "connections refused: no proper HELLO"}, 10},
    {{LogLevel::warning, "unauthorized", "connections refused: token missing or unknown"}, 10},
    {{LogLevel::warning, "malformed", "connections closed: malformed frame"}, 10},
    {{LogLevel::info, "hello_timeout", "connections closed: no HELLO in time"}, 10},
    {{LogLevel::warning, "stuck_peer", "connections closed: replies not read"}, 10},
    {{LogLevel::info, "receive_error", "connections broke while receiving"}, 60},
    {{LogLevel::info, "send_error", "connections broke while sending"}, 60},
    {{LogLevel::warning, "accept_error", "connections could not be accepted"}, 10},
    {{LogLevel::warning, "too_many_connections", "connections refused: at the limit"}, 10},
    {{LogLevel::warning, "no_reply_memory", "connections closed: no memory for replies"}, 10},
    {{LogLevel::error, "table_full", "the table is full: new keys are refused"}, 60},
    {{LogLevel::warning, "overloaded", "overloaded: requests refused"}, 10},
    {{LogLevel::warning, "completion_overflow", "the completion queue overflowed"}, 60},
}};
static_assert(!kKinds.back().event.name.empty());

std::string text_of(const FaultNote& note) {
  if (note.peer_bytes == 0) return "";
  const auto address =
      protocol::address_from(reinterpret_cast<const sockaddr*>(&note.peer), note.peer_bytes);
  return address ? address->text : "";
}

}  // namespace

const FaultKind& kind_of(Fault fault) noexcept {
  return kKinds[static_cast<std::size_t>(fault)];
}

void Journal::report(std::uint64_t now_ms, const FaultTotals& totals, const TakeNote& take_note) {
  for (std::size_t i = 0; i < kFaults; ++i) {
    Told& told = told_[i];
    if (totals[i] == told.total || now_ms < told.next_ms) continue;
    const auto fault = static_cast<Fault>(i);
    std::vector<LogField> fields{{"count", totals[i] - told.total}};
    std::string peer;
    std::optional<FaultNote> note = take_note(fault);
    if (note) {
      peer = text_of(*note);
      if (!peer.empty()) fields.push_back({"peer", peer});
      if (note->client_bytes != 0) fields.push_back({"client", note->client_name()});
      if (!note->reason.empty()) fields.push_back({"reason", note->reason});
    }
    log_.write(kKinds[i].event, fields);
    told.total = totals[i];
    told.next_ms = now_ms + std::uint64_t{kKinds[i].interval_s} * 1000;
  }
}

}  // namespace pail::server
