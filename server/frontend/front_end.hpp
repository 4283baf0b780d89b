// What every front end and the shard around it tell each other, whatever protocol it speaks.
#pragma once

#include <cstdint>
#include <string_view>

#include "server/engine/ticks.hpp"
#include "server/frontend/gate.hpp"
#include "server/frontend/grant_ledger.hpp"
#include "server/frontend/policy_desk.hpp"
#include "server/frontend/stats_source.hpp"

namespace pail::frontend {

// The one reading of the clock that a turn of the loop decides against.
struct Now {
  engine::Ticks ticks = 0;
  std::uint64_t us = 0;  // the same moment, as clients are told it
  // How much later the replies of this turn leave, as far as one can tell.
  std::uint32_t turn_us = 0;
};

// What a connection gets where more arrives than can be decided.
enum class Service : std::uint8_t {
  normal,
  shedding,  // `overloaded` to all that would be decided: nothing is charged
};

// What the server says about itself in HELLO.
struct Identity {
  std::uint64_t boot_id = 0;
  std::uint32_t configuration_version = 0;
};

// What a front end may ask of the server around it; null: not there.
struct Services {
  const StatsSource* stats = nullptr;
  const Gate* gate = nullptr;  // without one everybody may do everything
  std::uint32_t most_grants = GrantLedger::kCapacity;  // unsettled, of all connections
  PolicyDesk* desk = nullptr;
};

// What is to become of the connection.
enum class Outcome : std::uint8_t {
  keep,
  close,          // after what is in the reply queue was sent
  leave,          // likewise, and nothing is wrong: the peer has said goodbye
  out_of_memory,  // no room for replies: at once
};

// Why a front end gave a connection up, for the operator. Borrowed: until the chunk is recycled.
struct Refusal {
  enum class Kind : std::uint8_t { hello, unauthorized, malformed };
  Kind kind = Kind::malformed;
  std::string_view reason;
  std::string_view client_name = {};
};

}  // namespace pail::frontend
