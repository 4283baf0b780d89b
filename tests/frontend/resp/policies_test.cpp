// Concern: what named policies can be asked one by one, in both protocols. Method: sessions without
// a socket, under a clock that stands still unless told.
#include <doctest/doctest.h>

#include "protocol/messages.hpp"
#include "tests/frontend/resp/resp_talk.hpp"

using namespace pail;
using namespace pail::test;

namespace {

engine::Options with_policies() {
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  engine::Options options;
  const auto add = [&](const char* name, engine::Algorithm algorithm) -> engine::PolicySpec& {
    engine::PolicySpec spec{name, protocol::policy_id(name), {}};
    spec.algorithm = algorithm;
    return options.policies.emplace_back(spec);
  };
  add("second", engine::Algorithm::token_bucket).rate = {kSecondNs, 10, 5};
  add("day", engine::Algorithm::token_bucket).rate = {86'400 * kSecondNs, 100, 3};
  engine::PolicySpec& jobs = add("jobs", engine::Algorithm::concurrency);
  jobs.limit = 2;
  jobs.window = engine::WindowRule::every(30);
  return options;
}

// The text of the n-th bulk string of an answer.
std::string bulk(const std::string& answer, int n = 0) {
  std::size_t at = answer.find('$');
  for (; n > 0; --n) at = answer.find('$', at + 1);
  const std::size_t begin = answer.find("\r\n", at) + 2;
  return answer.substr(begin, answer.find("\r\n", begin) - begin);
}

}  // namespace

TEST_CASE("several policies at once, all or none") {
  RespTalk talk(with_policies());
  const std::vector<std::string> ask = {"PAIL.TAKEALL", "second", "a", "1", "day", "a", "1"};
  CHECK(talk.ask(ask) ==
        "*7\r\n+ok\r\n:3\r\n:2\r\n:0\r\n:864000\r\n:-1\r\n*2\r\n*3\r\n:5\r\n:4\r\n:100\r\n"
        "*3\r\n:3\r\n:2\r\n:864000\r\n");
  CHECK(talk.ask(ask).starts_with("*7\r\n+ok\r\n"));
  CHECK(talk.ask(ask).starts_with("*7\r\n+ok\r\n"));
  const std::string refusal = talk.ask(ask);
  CHECK(refusal.starts_with("*7\r\n+denied\r\n:3\r\n:0\r\n:864000\r\n"));
  CHECK(refusal.find(":1\r\n*2\r\n*3\r\n:5\r\n:2\r\n") != std::string::npos);  // layer 1; uncharged
  CHECK(talk.ask({"PAIL.TAKEALL", "second", "a", "1", "second", "a", "1"})
            .starts_with("-ERR two layers"));
  CHECK(talk.ask({"PAIL.TAKEALL", "second", "a", "1", "day"}).starts_with("-ERR PAIL.TAKEALL"));
  talk.ask({"HELLO", "3"});
  CHECK(talk.ask({"PAIL.TAKEALL", "second", "b", "1"}) ==
        "%7\r\n+status\r\n+ok\r\n+limit\r\n:5\r\n+remaining\r\n:4\r\n+retry_after_ms\r\n:0\r\n"
        "+reset_after_ms\r\n:100\r\n+layer\r\n:-1\r\n+layers\r\n*1\r\n%3\r\n+limit\r\n:5\r\n"
        "+remaining\r\n:4\r\n+reset_after_ms\r\n:100\r\n");
}

TEST_CASE("permits are acquired, renewed and released") {
  RespTalk talk(with_policies());
  const std::string first = talk.ask({"PAIL.ACQUIRE", "jobs", "a"});
  CHECK(first.starts_with("*7\r\n+ok\r\n:2\r\n:1\r\n:0\r\n"));
  CHECK(first.ends_with(":30000\r\n"));
  CHECK(talk.ask({"PAIL.ACQUIRE", "jobs", "a"}).starts_with("*7\r\n+ok\r\n:2\r\n:0\r\n"));
  CHECK(talk.ask({"PAIL.ACQUIRE", "jobs", "a"}).starts_with("*7\r\n+denied\r\n"));
  const std::string renewed = talk.ask({"PAIL.RENEW", "jobs", "a", bulk(first)});
  CHECK(renewed.starts_with("*7\r\n+ok\r\n"));
  const std::string release = talk.ask({"PAIL.RELEASE", "jobs", "a", bulk(renewed)});
  CHECK(release.starts_with("*6\r\n+ok\r\n:2\r\n:1\r\n"));
  CHECK(release.ends_with(":1\r\n"));
  CHECK(talk.ask({"PAIL.RELEASE", "jobs", "a", "12345"}).ends_with(":0\r\n"));
  CHECK(talk.ask({"PAIL.RELEASE", "jobs", "a", "0"}).ends_with(":0\r\n"));
  CHECK(
      talk.ask({"PAIL.TAKE", "jobs", "a"}).starts_with("-ERR a concurrency policy gives permits"));
  CHECK(talk.ask({"PAIL.ACQUIRE", "second", "a"}).starts_with("-ERR the policy is no concurrency"));
}

TEST_CASE("an estimate is settled once") {
  RespTalk talk(with_policies());
  const std::string taken = talk.ask({"PAIL.TAKE", "day", "a", "3", "GRANT"});
  CHECK(taken.starts_with("*7\r\n+ok\r\n:3\r\n:0\r\n"));
  CHECK(taken.ends_with(":600000\r\n"));
  CHECK(talk.ask({"PAIL.SETTLE", "day", "b", bulk(taken), "1"}).starts_with("-ERR the grant was"));
  const std::string settled = talk.ask({"PAIL.SETTLE", "day", "a", bulk(taken), "1"});
  CHECK(settled.starts_with("*6\r\n+ok\r\n:3\r\n:2\r\n"));
  CHECK(settled.ends_with(":1\r\n"));
  CHECK(talk.ask({"PAIL.SETTLE", "day", "a", bulk(taken), "0"})
            .starts_with("-ERR this connection has no such grant"));
  CHECK(talk.ask({"PAIL.TAKE", "day", "a", "1", "GRAB"}).starts_with("-ERR syntax error"));
  const std::string refused = talk.ask({"PAIL.TAKE", "day", "a", "3", "GRANT"});
  CHECK(refused.starts_with("*7\r\n+denied\r\n"));
  CHECK(refused.ends_with("$-1\r\n:0\r\n"));
}

TEST_CASE("a grant that is no number in range is a mistake, not one that has lapsed") {
  RespTalk talk(with_policies());
  for (const char* grant : {"abc", "", "-1", "+1", " 1", "1 ", "1.0", "0x1", "18446744073709551616",
                            "99999999999999999999999"}) {
    CAPTURE(std::string(grant));
    CHECK(
        talk.ask({"PAIL.RELEASE", "jobs", "a", grant}).starts_with("-ERR grant must be a number"));
    CHECK(talk.ask({"PAIL.RENEW", "jobs", "a", grant}).starts_with("-ERR grant must be a number"));
    CHECK(talk.ask({"PAIL.SETTLE", "day", "a", grant, "1"})
              .starts_with("-ERR grant must be a number"));
  }
  const char* const kMost = "18446744073709551615";
  CHECK(talk.ask({"PAIL.RELEASE", "jobs", "a", kMost}).starts_with("*6\r\n+ok\r\n"));
  CHECK(talk.ask({"PAIL.RENEW", "jobs", "a", kMost}).starts_with("*7\r\n+denied\r\n"));
  CHECK(talk.ask({"PAIL.SETTLE", "day", "a", kMost, "1"})
            .starts_with("-ERR this connection has no such grant"));
}

TEST_CASE("administrators reset") {
  RespTalk talk(with_policies());
  talk.ask({"PAIL.TAKE", "day", "a", "3"});
  CHECK(talk.ask({"PAIL.RESET", "day", "a"}) == "*5\r\n+ok\r\n:3\r\n:3\r\n:0\r\n:0\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "day", "a", "3"}).starts_with("*5\r\n+ok\r\n"));
  talk.ask({"CL.THROTTLE", "k", "0", "1", "60"});
  CHECK(talk.ask({"PAIL.RESET", "k"}).starts_with("*5\r\n+ok\r\n"));
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "60"}).starts_with("*5\r\n:0\r\n"));
}

TEST_CASE("a server that sheds load still hears what gives back") {
  RespTalk talk(with_policies());
  const auto shed = [&](const std::vector<std::string>& words) {
    return talk.say(resp_array(words), frontend::Service::shedding);
  };
  const std::string grant = bulk(talk.ask({"PAIL.ACQUIRE", "jobs", "a"}));
  CHECK(shed({"PAIL.ACQUIRE", "jobs", "a"}).starts_with("-OVERLOADED "));
  CHECK(shed({"PAIL.TAKEALL", "day", "a", "1"}).starts_with("-OVERLOADED "));
  CHECK(shed({"PAIL.RELEASE", "jobs", "a", grant}).ends_with(":1\r\n"));
}
