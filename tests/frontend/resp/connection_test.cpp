// Concern: what clients send before they ask for anything is answered as they expect it. Method:
// their words, and the bytes of the answers, on a session without a socket.
#include <doctest/doctest.h>

#include "tests/frontend/resp/resp_talk.hpp"

using namespace pail;
using namespace pail::test;
using frontend::Outcome;

namespace {

// One token that is good, one that administers.
class Door final : public frontend::Gate {
 public:
  [[nodiscard]] frontend::Permission admit(std::string_view token, bool) const noexcept override {
    if (token == "a-good-token-of-16") return {true, false, 1};
    if (token == "an-admin-token-of-16") return {true, true, 2};
    return {};
  }
  [[nodiscard]] frontend::Permission renew(std::uint64_t ticket, bool) const noexcept override {
    return {ticket != gone, ticket == 2, ticket};
  }
  [[nodiscard]] std::string_view refusal() const noexcept override { return "a token is wanted"; }

  std::uint64_t gone = 0;
};

class Numbers final : public frontend::StatsSource {
 public:
  [[nodiscard]] std::size_t shard_count() const noexcept override { return 1; }
  [[nodiscard]] std::size_t stat_count() const noexcept override { return 2; }
  [[nodiscard]] protocol::Stat stat(std::size_t index, std::size_t) const noexcept override {
    return index == 0 ? protocol::Stat{protocol::StatKind::gauge, "uptime_ms", 90'061'000}
                      : protocol::Stat{protocol::StatKind::gauge, "connections", 7};
  }
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("HELLO says who answers, in the protocol that it asks for") {
  RespTalk talk;
  CHECK(talk.ask({"HELLO"}) ==
        "*14\r\n$6\r\nserver\r\n$4\r\npail\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:2\r\n"
        "$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n");
  CHECK(talk.ask({"hello", "3", "setname", "gateway"}) ==
        "%7\r\n$6\r\nserver\r\n$4\r\npail\r\n$7\r\nversion\r\n$5\r\n7.4.0\r\n$5\r\nproto\r\n:3\r\n"
        "$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        "$7\r\nmodules\r\n*0\r\n");
  CHECK(talk.ask({"CLIENT", "GETNAME"}) == "$7\r\ngateway\r\n");
  CHECK(talk.ask({"HELLO", "4"}) == "-NOPROTO unsupported protocol version\r\n");
  CHECK(talk.ask({"HELLO", "2", "AUTH", "x"}).starts_with("-ERR syntax error in HELLO"));
  CHECK(talk.ask({"HELLO", "2", "SETNAME", "a b"}).starts_with("-ERR a client's name"));
  CHECK(talk.ask({"CLIENT", "GETNAME"}) == "$7\r\ngateway\r\n");
  CHECK(talk.ask({"RESET"}) == "+RESET\r\n");
  CHECK(talk.ask({"CLIENT", "GETNAME"}) == "$-1\r\n");
  CHECK(talk.is_open());
}

TEST_CASE("the small words of connections") {
  RespTalk talk;
  CHECK(talk.ask({"PING"}) == "+PONG\r\n");
  CHECK(talk.ask({"ping", "a\r\nb"}) == "$4\r\na\r\nb\r\n");
  CHECK(talk.say("ping\r\n") == "+PONG\r\n");
  CHECK(talk.ask({"ECHO", ""}) == "$0\r\n\r\n");
  CHECK(talk.ask({"ECHO", std::string(9000, 'x')}) ==
        "-ERR the message is longer than 8192 bytes\r\n");
  CHECK(talk.ask({"SELECT", "0"}) == "+OK\r\n");
  CHECK(talk.ask({"SELECT", "1"}) == "-ERR DB index is out of range: there is only 0\r\n");
  CHECK(talk.ask({"READONLY"}) == "+OK\r\n");
  CHECK(talk.ask({"CLIENT", "SETNAME", "x"}) == "+OK\r\n");
  CHECK(talk.ask({"CLIENT", "SETINFO", "lib-name", "redis-py"}) == "+OK\r\n");
  CHECK(talk.ask({"CLIENT", "ID"}) == ":1\r\n");
  CHECK(talk.ask({"CLIENT", "LIST"}) == "$24\r\nid=1 name=x db=0 resp=2\n\r\n");
  CHECK(talk.ask({"CLIENT", "INFO"}) == "$24\r\nid=1 name=x db=0 resp=2\n\r\n");
  CHECK(talk.ask({"CLIENT", "MAINT_NOTIFICATIONS", "on"})
            .starts_with("-ERR unknown subcommand 'MAINT_NOTIFICATIONS'"));
  CHECK(talk.ask({"nosuch\r\nthing"}) == "-ERR unknown command 'nosuch??thing'\r\n");
  CHECK(talk.ask({"ECHO"}) == "-ERR wrong number of arguments for 'echo' command: message\r\n");
  CHECK(talk.is_open());
  CHECK(talk.ask({"QUIT"}) == "+OK\r\n");
  CHECK(talk.outcome() == Outcome::leave);
}

TEST_CASE("what is not here says what is") {
  RespTalk talk;
  for (const char* name : {"EVAL", "EVALSHA", "SCRIPT", "FCALL"}) {
    const std::string answer = talk.ask({name, "return 1", "0"});
    CHECK(answer.starts_with("-ERR "));
    CHECK(contains(answer, "CL.THROTTLE"));
    CHECK(contains(answer, "PAIL.TAKE"));
  }
  CHECK(contains(talk.ask({"MULTI"}), "pipeline without MULTI"));
}

TEST_CASE("what tools ask about the server") {
  const Numbers numbers;
  RespTalk talk({}, {.stats = &numbers});
  const std::string info = talk.ask({"INFO"});
  for (const char* line : {"\r\nredis_version:7.4.0\r\n", "\r\nuptime_in_seconds:90061\r\n",
                           "\r\nconnected_clients:7\r\n", "\r\nused_memory:0\r\n",
                           "\r\nloading:0\r\n", "\r\nrole:master\r\n", "# Keyspace\r\n"}) {
    CAPTURE(line);
    CHECK(contains(info, line));
  }
  CHECK(talk.ask({"info", "Clients"}) == "$34\r\n# Clients\r\nconnected_clients:7\r\n\r\n\r\n");
  CHECK(talk.ask({"CONFIG", "GET", "save"}) == "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  CHECK(talk.ask({"CONFIG", "GET", "nothing"}) == "*0\r\n");
  CHECK(talk.ask({"CONFIG", "SET", "save", "1"}).starts_with("-ERR only CONFIG GET"));
  const auto all = frontend::resp::all_commands();
  CHECK(talk.ask({"COMMAND", "COUNT"}) == ":" + std::to_string(all.size()) + "\r\n");
  CHECK(talk.ask({"COMMAND", "DOCS"}) == "*0\r\n");
  CHECK(talk.ask({"COMMAND", "INFO", "cl.throttle", "nope"}) ==
        "*2\r\n*6\r\n$11\r\ncl.throttle\r\n:-5\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n$-1\r\n");
  talk.ask({"HELLO", "3"});
  CHECK(talk.ask({"CONFIG", "GET", "save"}) == "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
  CHECK(contains(talk.ask({"INFO", "replication"}), "\r\ntxt:# Replication\r\n"));
  CHECK(talk.ask({"COMMAND"}).starts_with("*" + std::to_string(all.size()) + "\r\n"));
}

TEST_CASE("without a token nothing is told and little is read") {
  const Door door;
  RespTalk talk({}, {.gate = &door});
  CHECK_FALSE(talk.session().is_greeted());
  CHECK(talk.ask({"PING"}) == "-NOAUTH Authentication required.\r\n");
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "60"}) == "-NOAUTH Authentication required.\r\n");
  CHECK(talk.ask({"nosuch"}) == "-NOAUTH Authentication required.\r\n");
  CHECK(talk.ask({"HELLO", "3"}).starts_with("-NOAUTH HELLO must be called"));
  SUBCASE("a large command") {
    talk.ask({"AUTH", std::string(1010, 'x')});
    CHECK(talk.outcome() == Outcome::close);
    CHECK(talk.refusal().kind == frontend::Refusal::Kind::malformed);
  }
  SUBCASE("a wrong token: there is no second guess, and nothing behind it runs") {
    CHECK(talk.say(resp_array({"AUTH", "wrong"}) + resp_array({"AUTH", "a-good-token-of-16"})) ==
          "-WRONGPASS this server wants a token that it knows\r\n");
    CHECK(talk.outcome() == Outcome::close);
    CHECK(talk.refusal().kind == frontend::Refusal::Kind::unauthorized);
    CHECK(talk.count(frontend::RespCount::unauthorized) == 1);
  }
  SUBCASE("the right one, in the same chunk as what needs it") {
    CHECK(talk.say(resp_array({"AUTH", "default", "a-good-token-of-16"}) +
                   resp_array({"CL.THROTTLE", "k", "0", "1", "60"})) ==
          "+OK\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
    CHECK(talk.ask({"ECHO", std::string(2000, 'x')}).size() == 2000 + 9);
    CHECK(talk.ask({"RESET"}) == "+RESET\r\n");
    CHECK(talk.ask({"PING"}) == "-NOAUTH Authentication required.\r\n");
  }
  SUBCASE("with HELLO") {
    CHECK(talk.ask({"HELLO", "3", "AUTH", "default", "a-good-token-of-16", "SETNAME", "gw"})
              .starts_with("%7\r\n"));
    CHECK(talk.ask({"CLIENT", "GETNAME"}) == "$2\r\ngw\r\n");
  }
}

TEST_CASE("a token that is gone ends its connections") {
  Door door;
  RespTalk talk({}, {.gate = &door});
  CHECK(talk.renew() == Outcome::keep);
  CHECK(talk.ask({"AUTH", "a-good-token-of-16"}) == "+OK\r\n");
  door.gone = 2;
  CHECK(talk.renew() == Outcome::keep);
  door.gone = 1;
  CHECK(talk.renew() == Outcome::close);
  CHECK(talk.heard() == "-NOAUTH the token of this connection is no longer valid\r\n");
}

TEST_CASE("nobody gets much more than he sent") {
  RespTalk talk;
  std::string many;
  for (int i = 0; i < 20; ++i) many += "INFO\r\n";
  const std::string answer = talk.say(many);
  CHECK(talk.is_open());
  CHECK(answer.size() < 8 * 1024);
  CHECK(contains(answer, "-OVERLOADED too many such commands at once"));
  CHECK(talk.ask({"INFO"}).starts_with("$"));

  std::string nonsense;
  while (nonsense.size() < 16 * 1024) nonsense += "x\n";
  const std::string refusals = talk.say(nonsense);
  CHECK(talk.outcome() == Outcome::close);
  CHECK(refusals.size() < frontend::Resp::kReplyFactor * nonsense.size() +
                              frontend::Resp::kReplyAllowanceBytes + 1024);
}
