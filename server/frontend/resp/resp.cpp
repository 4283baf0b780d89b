#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using resp::CommandId;
using resp::CommandSpec;
using resp::Writer;

namespace {

constexpr std::size_t kShortReplyBytes = 512;
constexpr std::size_t kLayersReplyBytes = 2 * 1024;
constexpr std::size_t kLongReplyBytes = 12 * 1024;
constexpr std::size_t kMaxMessageBytes = 8 * 1024;  // of PING and ECHO
constexpr std::size_t kQuotedBytes = 64;            // of what a peer sent, in an error
static_assert(kMaxMessageBytes + kShortReplyBytes <= kLongReplyBytes);
static_assert(kLongReplyBytes <= ReplyBlock::kRoomBytes);

constexpr std::string_view kNoAuth = "NOAUTH Authentication required.";
constexpr std::string_view kNoScripts =
    "ERR there are no scripts here: CL.THROTTLE key max_burst count_per_period period_s takes from "
    "a "
    "bucket in one command, PAIL.TAKE policy key from a named limit";
constexpr std::string_view kNoTransactions =
    "ERR there are no transactions here: every command is atomic, so send them in a pipeline "
    "without "
    "MULTI and EXEC";

// What it may take to answer.
std::size_t room_for(CommandId id, const resp::Command& command) noexcept {
  switch (id) {
    case CommandId::ping:
    case CommandId::echo:
      return kShortReplyBytes + (command.count > 1 ? command.words[1].size() : 0);
    case CommandId::client:
    case CommandId::command:
    case CommandId::config:
    case CommandId::hello:
    case CommandId::info:
      return kLongReplyBytes;
    case CommandId::take_all:
      return kLayersReplyBytes;
    default:
      return kShortReplyBytes;
  }
}

constexpr bool is_for_strangers(CommandId id) noexcept {
  return id == CommandId::auth || id == CommandId::hello || id == CommandId::quit ||
         id == CommandId::reset_connection;
}

constexpr bool wants_grant(CommandId id, const resp::Command& command) noexcept {
  constexpr std::size_t kWords = 5;  // PAIL.TAKE policy key cost GRANT
  return id == CommandId::take && command.count == kWords;
}

}  // namespace

void Resp::welcome(RespSession& session) noexcept {
  session.id_ = next_id_;
  next_id_ += id_step_;
  reset_connection(session);
}

Outcome Resp::receive(RespSession& session, protocol::Bytes chunk, const Now& now,
                      ReplyQueue& replies, Service service) noexcept {
  service_ = service;
  now_ = now;
  long_left_ = kLongPerChunk;
  const std::size_t pending_before = replies.pending_bytes();
  const std::size_t most = kReplyFactor * chunk.size() + kReplyAllowanceBytes;
  session.reader_.feed(chunk);
  while (session.reader_.next(command_)) {
    const CommandSpec* const spec = resp::find_command(command_.name());
    if (spec != nullptr && is_in_groups(spec->id) && session.is_greeted() &&
        !wants_grant(spec->id, command_)) [[likely]] {
      add(*spec, command_);
      if (group_.size < kGroup) continue;
      if (!answer_group(session, replies)) return Outcome::out_of_memory;
    } else {
      if (!answer_group(session, replies)) return Outcome::out_of_memory;
      const Outcome outcome = run(session, spec, replies);
      if (outcome != Outcome::keep) return outcome;
    }
    if (replies.pending_bytes() - pending_before > most) {
      return give_up(Refusal::Kind::malformed, "ERR more is asked than a client needs", session,
                     replies);
    }
  }
  if (!answer_group(session, replies)) return Outcome::out_of_memory;
  if (const std::string_view fault = session.reader_.fault(); !fault.empty()) {
    return give_up(Refusal::Kind::malformed, fault, session, replies);
  }
  session.reader_.end_chunk();
  return Outcome::keep;
}

Outcome Resp::run(RespSession& session, const CommandSpec* spec, ReplyQueue& replies) noexcept {
  const auto room =
      replies.room(spec == nullptr ? kShortReplyBytes : room_for(spec->id, command_), pool_);
  if (room.empty()) return Outcome::out_of_memory;
  Writer out(room, session.is_resp3_);
  Outcome outcome = Outcome::keep;
  counters_.add(RespCount::commands);
  if (!session.is_greeted() && (spec == nullptr || !is_for_strangers(spec->id))) {
    refuse(out, kNoAuth);
  } else if (spec == nullptr) {
    counters_.add(RespCount::errors);
    out.raw("-ERR unknown command '");
    out.quoted(command_.name(), kQuotedBytes);
    out.raw("'");
    out.line_end();
  } else if (command_.count < spec->least_words || command_.count > spec->most_words) {
    refuse_usage(out, *spec);
  } else {
    const Words arguments = command_.arguments();
    if (is_of_counter(spec->id)) {
      run_counter(spec->id, arguments, out);
    } else if (is_of_policy(spec->id) || spec->id == CommandId::take) {
      run_policy(session, spec->id, arguments, out);
    } else {
      outcome = run_known(session, spec->id, arguments, out);
    }
  }
  replies.append(out.size_bytes());
  return outcome;
}

Outcome Resp::run_known(RespSession& session, CommandId id, Words arguments, Writer& out) noexcept {
  switch (id) {
    case CommandId::auth:
      return auth(session, arguments, out);
    case CommandId::hello:
      return hello(session, arguments, out);
    case CommandId::quit:
      out.simple("OK");
      return Outcome::leave;
    case CommandId::reset_connection:
      reset_connection(session);
      out.simple("RESET");
      break;
    case CommandId::ping:
      if (arguments.empty()) {
        out.simple("PONG");
        break;
      }
      [[fallthrough]];
    case CommandId::echo:
      if (arguments[0].size() > kMaxMessageBytes) {
        refuse(out, "ERR the message is longer than 8192 bytes");
      } else {
        out.bulk(arguments[0]);
      }
      break;
    case CommandId::select:
      if (arguments[0] == "0") {
        out.simple("OK");
      } else {
        refuse(out, "ERR DB index is out of range: there is only 0");
      }
      break;
    case CommandId::readonly:
      out.simple("OK");
      break;
    case CommandId::client:
      client(session, arguments, out);
      break;
    case CommandId::command:
      command(arguments, out);
      break;
    case CommandId::config:
      config(arguments, out);
      break;
    case CommandId::info:
      info(arguments, out);
      break;
    case CommandId::script:
      refuse(out, kNoScripts);
      break;
    case CommandId::transaction:
      refuse(out, kNoTransactions);
      break;
    default:  // decided elsewhere
      break;
  }
  return Outcome::keep;
}

void Resp::refuse(Writer& out, std::string_view error) noexcept {
  counters_.add(RespCount::errors);
  out.error(error);
}

void Resp::refuse_usage(Writer& out, const CommandSpec& spec) noexcept {
  counters_.add(RespCount::errors);
  out.raw("-ERR wrong number of arguments for '");
  out.raw(spec.name);
  out.raw("' command");
  if (!spec.usage.empty()) {
    out.raw(": ");
    out.raw(spec.usage);
  }
  out.line_end();
}

bool Resp::may_be_long(Writer& out) noexcept {
  if (long_left_ != 0) return --long_left_, true;
  refuse(out, "OVERLOADED too many such commands at once: wait for the answers");
  return false;
}

// The stream cannot be trusted any more, or its owner cannot: says why, interprets no further byte.
Outcome Resp::give_up(Refusal::Kind kind, std::string_view reason, RespSession& session,
                      ReplyQueue& replies) noexcept {
  counters_.add(kind == Refusal::Kind::malformed ? RespCount::malformed : RespCount::unauthorized);
  refusal_ = {kind, reason, session.name()};
  const auto room = replies.room(kShortReplyBytes, pool_);
  if (room.empty()) return Outcome::out_of_memory;
  Writer out(room, session.is_resp3_);
  out.raw(kind == Refusal::Kind::malformed ? "-ERR Protocol error: " : "-NOAUTH ");
  out.raw(reason);
  out.line_end();
  replies.append(out.size_bytes());
  return Outcome::close;
}

}  // namespace pail::frontend
