// The front end that speaks RESP, the protocol of Redis: received bytes in, reply bytes out, the
// engine asked in between. So a program that has a Redis client has a client of Pail.
//
// As the native one (native.hpp) it knows no socket and no clock; one belongs to each shard and is
// used by its thread, and what a connection must remember is its RespSession. Commands are read in
// place; takes that follow each other are decided in groups of up to 16, everything else alone, and
// all are answered in the order in which they came.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "protocol/messages.hpp"
#include "server/engine/engine.hpp"
#include "server/frontend/front_end.hpp"
#include "server/frontend/grant_ledger.hpp"
#include "server/frontend/reply_queue.hpp"
#include "server/frontend/resp/command_reader.hpp"
#include "server/frontend/resp/command_table.hpp"
#include "server/frontend/resp/resp_counters.hpp"
#include "server/frontend/resp/writer.hpp"

namespace pail::frontend {

class RespSession {
 public:
  RespSession() = default;  // Reads nothing: assign a real one before use.
  // `carry` keeps the beginning of a command that is split over chunks; it outlives the session.
  // `is_local`: the peer is on this machine. Call Resp::welcome() next.
  explicit RespSession(std::span<std::byte> carry, bool is_local = true) noexcept
      : reader_(carry), is_local_(is_local) {}

  // It may ask for decisions: no token is wanted, or it has shown one.
  [[nodiscard]] bool is_greeted() const noexcept { return permission_.is_admitted; }
  // In the middle of a command.
  [[nodiscard]] bool is_mid_frame() const noexcept { return reader_.pending_bytes() > 0; }

 private:
  friend class Resp;
  [[nodiscard]] std::string_view name() const noexcept { return {name_.data(), name_bytes_}; }

  resp::CommandReader reader_;
  Permission permission_;
  bool is_local_ = true;
  bool is_resp3_ = false;
  std::uint8_t name_bytes_ = 0;
  std::array<char, protocol::kMaxClientNameBytes> name_{};
  std::uint64_t id_ = 0;
  GrantOwner grants_;  // Resp::forget() before the session goes
};

class Resp {
 public:
  static constexpr std::size_t kGroup = 16;
  // Answers that are much longer than their commands (INFO, COMMAND, ...), of one chunk.
  static constexpr std::size_t kLongPerChunk = 8;
  // All replies to one chunk are at most this many times its size, and kReplyAllowanceBytes: who
  // asks for more is closed. Only nonsense, such as thousands of unknown commands, comes near it.
  static constexpr std::size_t kReplyFactor = 8;
  static constexpr std::size_t kReplyAllowanceBytes = 64 * 1024;

  Resp(engine::Worker& worker, ReplyPool& pool, RespCounters& counters,
       const Services& services = {}, std::uint64_t first_id = 1, std::uint64_t id_step = 1)
      : worker_(worker),
        pool_(pool),
        counters_(counters),
        services_(services),
        next_id_(first_id),
        id_step_(id_step) {}

  // A connection begins.
  void welcome(RespSession& session) noexcept;

  // Interprets `chunk`, the next bytes of the session's stream.
  [[nodiscard]] Outcome receive(RespSession& session, protocol::Bytes chunk, const Now& now,
                                ReplyQueue& replies, Service service = Service::normal) noexcept;

  // The tokens have changed: what the session may do now.
  [[nodiscard]] Outcome renew(RespSession& session, ReplyQueue& replies) noexcept;

  // The connection is gone: its grants are nobody's now, and what they charged stays charged.
  void forget(RespSession& session) noexcept;

  // After Outcome::close.
  [[nodiscard]] const Refusal& refusal() const noexcept { return refusal_; }

 private:
  using Words = std::span<const std::string_view>;

  // The commands of one batch.
  struct Group {
    struct Entry {
      const resp::CommandSpec* spec;
      std::string_view fault;  // an error; empty: decided by the engine
    };
    std::array<Entry, kGroup> entries;
    std::array<engine::Request, kGroup> requests;
    std::array<engine::Decision, kGroup> decisions;
    std::size_t size = 0;
    std::size_t request_count = 0;
  };

  // Takes in groups: takes.cpp.
  void add(const resp::CommandSpec& spec, const resp::Command& command) noexcept;
  [[nodiscard]] bool answer_group(const RespSession& session, ReplyQueue& replies) noexcept;
  void answer(resp::Writer& out, resp::CommandId id, const engine::Decision& decision) noexcept;
  void answer_throttle(resp::Writer& out, const engine::Decision& decision) noexcept;
  // The numbers of a policy's answer, and room for `more` fields. False: it is an error instead.
  [[nodiscard]] bool begin_answer(resp::Writer& out, const engine::Decision& decision,
                                  std::size_t more) noexcept;
  // False: there is none, and an error says why.
  [[nodiscard]] bool is_decision(resp::Writer& out, const engine::Decision& decision) noexcept;

  // One by one: policy_commands.cpp.
  void run_policy(RespSession& session, resp::CommandId id, Words arguments,
                  resp::Writer& out) noexcept;
  [[nodiscard]] std::optional<engine::Request> read_single(std::string_view policy,
                                                           std::string_view key,
                                                           std::string_view cost,
                                                           std::int64_t least_cost,
                                                           resp::Writer& out) noexcept;
  void answer_grant(resp::Writer& out, const engine::Decision& decision, std::uint64_t id,
                    std::uint64_t ttl_ns) noexcept;
  void take_to_settle(RespSession& session, Words arguments, resp::Writer& out) noexcept;
  void settle(RespSession& session, Words arguments, resp::Writer& out) noexcept;
  void run_permit(resp::CommandId id, Words arguments, resp::Writer& out) noexcept;
  void take_all(Words arguments, resp::Writer& out) noexcept;
  void reset_key(const RespSession& session, Words arguments, resp::Writer& out) noexcept;

  // Counters: counter_commands.cpp.
  void run_counter(resp::CommandId id, Words arguments, resp::Writer& out) noexcept;
  [[nodiscard]] bool count(engine::CounterRequest& request, std::string_view key, resp::Writer& out,
                           engine::CounterAnswer& answer) noexcept;
  void increment(std::string_view key, std::optional<std::int64_t> amount,
                 resp::Writer& out) noexcept;
  void increment_within(Words arguments, resp::Writer& out) noexcept;
  void expire(Words arguments, bool is_ms, resp::Writer& out) noexcept;
  void set_counter(Words arguments, resp::Writer& out) noexcept;
  void count_keys(engine::CounterAction action, Words keys, resp::Writer& out) noexcept;

  // Everything else; `spec` is null for an unknown command.
  [[nodiscard]] Outcome run(RespSession& session, const resp::CommandSpec* spec,
                            ReplyQueue& replies) noexcept;
  [[nodiscard]] Outcome run_known(RespSession& session, resp::CommandId id, Words arguments,
                                  resp::Writer& out) noexcept;

  // About the connection: connection_commands.cpp.
  [[nodiscard]] Outcome hello(RespSession& session, Words arguments, resp::Writer& out) noexcept;
  [[nodiscard]] Outcome authenticate(RespSession& session, std::string_view token,
                                     resp::Writer& out) noexcept;
  [[nodiscard]] Outcome auth(RespSession& session, Words arguments, resp::Writer& out) noexcept;
  void client(RespSession& session, Words arguments, resp::Writer& out) noexcept;
  void reset_connection(RespSession& session) noexcept;
  [[nodiscard]] bool set_name(RespSession& session, std::string_view name,
                              resp::Writer& out) noexcept;

  // About the server: server_commands.cpp.
  void info(Words arguments, resp::Writer& out) noexcept;
  void config(Words arguments, resp::Writer& out) noexcept;
  void command(Words arguments, resp::Writer& out) noexcept;
  [[nodiscard]] std::uint64_t stat(std::string_view name) const noexcept;

  void refuse(resp::Writer& out, std::string_view error) noexcept;
  void refuse_usage(resp::Writer& out, const resp::CommandSpec& spec) noexcept;
  // False: enough of them for this chunk, and the peer is told so.
  [[nodiscard]] bool may_be_long(resp::Writer& out) noexcept;
  [[nodiscard]] Outcome give_up(Refusal::Kind kind, std::string_view reason, RespSession& session,
                                ReplyQueue& replies) noexcept;

  engine::Worker& worker_;
  ReplyPool& pool_;
  RespCounters& counters_;
  const Services services_;
  std::uint64_t next_id_;
  const std::uint64_t id_step_;
  Now now_;                            // of the chunk that is being received
  std::size_t long_left_ = 0;          // of kLongPerChunk
  Service service_ = Service::normal;  // likewise
  Refusal refusal_;
  resp::Command command_;
  Group group_;
  GrantLedger grants_{services_.most_grants};
};

}  // namespace pail::frontend
