// What a client says about itself: HELLO, AUTH, CLIENT, RESET.
#include <algorithm>

#include "server/frontend/resp/integers.hpp"
#include "server/frontend/resp/redis_version.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using resp::is_word;
using resp::Writer;

namespace {

constexpr std::size_t kQuotedBytes = 64;

}  // namespace

// Whoever needs no token may do at once what everybody may.
void Resp::reset_connection(RespSession& session) noexcept {
  session.is_resp3_ = false;
  session.name_bytes_ = 0;
  session.permission_ = services_.gate == nullptr ? Permission{true, true, 0}
                                                  : services_.gate->admit({}, session.is_local_);
  session.reader_.set_limit(session.is_greeted() ? resp::kMaxCommandBytes
                                                 : resp::kMaxStrangerBytes);
}

// A wrong token ends the connection: there is no second guess.
Outcome Resp::authenticate(RespSession& session, std::string_view token, Writer& out) noexcept {
  const bool is_possible = token.size() <= protocol::kMaxTokenBytes;
  const Permission permission = services_.gate == nullptr ? Permission{true, true, 0}
                                : is_possible ? services_.gate->admit(token, session.is_local_)
                                              : Permission{};
  if (!permission.is_admitted) {
    counters_.add(RespCount::unauthorized);
    refusal_ = {Refusal::Kind::unauthorized, services_.gate->refusal(), session.name()};
    out.error("WRONGPASS this server wants a token that it knows");
    return Outcome::close;
  }
  session.permission_ = permission;
  session.reader_.set_limit(resp::kMaxCommandBytes);
  return Outcome::keep;
}

// AUTH token, or AUTH user token: tokens have names, but stand for themselves.
Outcome Resp::auth(RespSession& session, Words arguments, Writer& out) noexcept {
  const Outcome outcome = authenticate(session, arguments.back(), out);
  if (outcome == Outcome::keep) out.simple("OK");
  return outcome;
}

Outcome Resp::renew(RespSession& session, ReplyQueue& replies) noexcept {
  if (!session.is_greeted() || services_.gate == nullptr) return Outcome::keep;
  session.permission_ = services_.gate->renew(session.permission_.ticket, session.is_local_);
  if (session.is_greeted()) return Outcome::keep;
  return give_up(Refusal::Kind::unauthorized, "the token of this connection is no longer valid",
                 session, replies);
}

// HELLO [2|3] [AUTH user token] [SETNAME name]: all of it is read before any of it is done.
Outcome Resp::hello(RespSession& session, Words arguments, Writer& out) noexcept {
  bool is_resp3 = session.is_resp3_;
  if (!arguments.empty()) {
    if (arguments[0] != "2" && arguments[0] != "3") {
      refuse(out, "NOPROTO unsupported protocol version");
      return Outcome::keep;
    }
    is_resp3 = arguments[0] == "3";
    arguments = arguments.subspan(1);
  }
  const std::string_view* token = nullptr;
  const std::string_view* name = nullptr;
  while (!arguments.empty()) {
    std::size_t words = 0;
    if (is_word(arguments[0], "auth") && arguments.size() >= 3) {
      token = &arguments[2];
      words = 3;
    } else if (is_word(arguments[0], "setname") && arguments.size() >= 2) {
      name = &arguments[1];
      words = 2;
    } else {
      refuse(out, "ERR syntax error in HELLO: [2|3] [AUTH user token] [SETNAME name]");
      return Outcome::keep;
    }
    arguments = arguments.subspan(words);
  }
  if (token != nullptr) {
    const Outcome outcome = authenticate(session, *token, out);
    if (outcome != Outcome::keep) return outcome;
  }
  if (!session.is_greeted()) {
    refuse(out,
           "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
           "<proto> AUTH <user> <token> option can be used");
    return Outcome::keep;
  }
  if (!may_be_long(out)) return Outcome::keep;
  if (name != nullptr && !set_name(session, *name, out)) return Outcome::keep;
  session.is_resp3_ = is_resp3;
  Writer reply = out.as(is_resp3);
  reply.map(7);
  reply.bulk("server");
  reply.bulk("pail");
  reply.bulk("version");
  reply.bulk(resp::kRedisVersion);
  reply.bulk("proto");
  reply.integer(is_resp3 ? 3 : 2);
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(session.id_));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
  out = reply;
  return Outcome::keep;
}

// False: refused.
bool Resp::set_name(RespSession& session, std::string_view name, Writer& out) noexcept {
  const bool is_good = name.size() <= session.name_.size() &&
                       std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
  if (!is_good) {
    refuse(out, "ERR a client's name is at most 64 printable characters without spaces");
    return false;
  }
  std::ranges::copy(name, session.name_.begin());
  session.name_bytes_ = static_cast<std::uint8_t>(name.size());
  return true;
}

void Resp::client(RespSession& session, Words arguments, Writer& out) noexcept {
  const std::string_view what = arguments[0];
  const auto is = [&](std::string_view name, std::size_t words) {
    return is_word(what, name) && arguments.size() == words;
  };
  if (is("setname", 2)) {
    if (set_name(session, arguments[1], out)) out.simple("OK");
  } else if (is("getname", 1)) {
    session.name().empty() ? out.null() : out.bulk(session.name());
  } else if (is("setinfo", 3) || is("no-evict", 2) || is("no-touch", 2)) {
    out.simple("OK");
  } else if (is("id", 1)) {
    out.integer(static_cast<std::int64_t>(session.id_));
  } else if (is_word(what, "list") || is("info", 1)) {
    // The others belong to other threads: everybody sees himself only.
    if (!may_be_long(out)) return;
    std::array<std::byte, 256> line;
    Writer text(line, false);
    text.raw("id=");
    text.decimal(session.id_);
    text.raw(" name=");
    text.raw(session.name());
    text.raw(" db=0 resp=");
    text.raw(session.is_resp3_ ? "3" : "2");
    text.raw("\n");
    out.bulk(text.text());
  } else {
    counters_.add(RespCount::errors);
    out.raw("-ERR unknown subcommand '");
    out.quoted(what, kQuotedBytes);
    out.raw("' of CLIENT, or a wrong number of arguments");
    out.line_end();
  }
}

}  // namespace pail::frontend
