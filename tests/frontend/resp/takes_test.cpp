// Concern: CL.THROTTLE and PAIL.TAKE decide what the engine decides, and answer it as Redis clients
// read it. Method: sessions without a socket, under a clock that stands still unless told.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "protocol/messages.hpp"
#include "tests/frontend/resp/resp_talk.hpp"

using namespace pail;
using namespace pail::test;

namespace {

engine::Options with_policies() {
  engine::Options options;
  options.policies = {{"five", protocol::policy_id("five"), {std::uint64_t{1'000'000'000}, 10, 5}}};
  engine::PolicySpec slow{
      "queue", protocol::policy_id("queue"), {std::uint64_t{1'000'000'000}, 10, 1}};
  slow.algorithm = engine::Algorithm::leaky_bucket;
  slow.max_wait_ns = std::uint64_t{1'000'000'000};
  options.policies.push_back(slow);
  return options;
}

// "0,16,15,-1,2" as a reply.
std::string five(std::string numbers) {
  std::string text = "*5\r\n";
  for (char& c : numbers) c = c == ',' ? ' ' : c;
  std::istringstream in(numbers);
  for (std::string one; in >> one;) text += ":" + one + "\r\n";
  return text;
}

}  // namespace

TEST_CASE("the documented answers to CL.THROTTLE") {
  RespTalk talk;
  CHECK(talk.ask({"CL.THROTTLE", "u", "15", "30", "60"}) == five("0,16,15,-1,2"));
  CHECK(talk.ask({"cl.throttle", "k", "0", "1", "2"}) == five("0,1,0,-1,2"));
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "2", "1"}) == five("1,1,0,2,2"));
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "2", "2"}) == five("1,1,0,-1,2"));
  talk.pass(2 * kSecond - kSecond / 10'000);
  // 0.1 ms: never "now" on a refusal.
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "2"}) == five("1,1,0,1,1"));
  talk.pass(kSecond / 10'000);
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "2"}) == five("0,1,0,-1,2"));
}

TEST_CASE("recorded answers to CL.THROTTLE, each sequence in one pipeline") {
  std::ifstream file(PAIL_CL_THROTTLE_VECTORS);
  RespTalk talk;
  int keys = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    CAPTURE(line);
    const std::size_t first = line.find('|');
    const std::size_t second = line.find('|', first + 1);
    std::istringstream limit(line.substr(0, first));
    std::istringstream quantities(line.substr(first + 1, second - first - 1));
    std::istringstream replies(line.substr(second + 1));
    std::string burst, count, period, quantity, reply, asked, expected;
    limit >> burst >> count >> period;
    const std::string key = "\xFF\r\n" + std::to_string(keys++);
    while (quantities >> quantity) {
      REQUIRE(static_cast<bool>(replies >> reply));
      asked += resp_array({"CL.THROTTLE", key, burst, count, period, quantity});
      expected += five(reply);
    }
    CHECK(talk.say(asked) == expected);
  }
  CHECK(keys >= 500);
}

TEST_CASE("quantity 0 looks, and leaves no trace") {
  RespTalk talk({.memory_limit_bytes = 0});
  // There is no room for any key, and none is needed.
  CHECK(talk.ask({"CL.THROTTLE", "a", "4", "1", "60", "0"}) == five("0,5,5,-1,0"));
  CHECK(talk.ask({"CL.THROTTLE", "c", "4", "1", "60"}) == "-OOM no room for a new key\r\n");
  CHECK(talk.count(frontend::RespCount::table_full) == 1);
}

TEST_CASE("what CL.THROTTLE cannot be asked") {
  RespTalk talk;
  const std::vector<std::string> good = {"CL.THROTTLE", "k", "15", "30", "60", "1"};
  const std::pair<std::size_t, std::vector<std::string>> bad[] = {
      {1, {""}},
      {2, {"-1", "x", "", "1.5", "4294967295", "99999999999999999999", "+1", "01", " 1"}},
      {3, {"0", "-1", "x", "4294967296"}},
      {4, {"0", "-1", "x", "31622401", "9223372036854775808"}},
      {5, {"-1", "x", "4294967296"}}};
  for (const auto& [place, words] : bad) {
    for (const std::string& word : words) {
      auto asked = good;
      asked[place] = word;
      CAPTURE(place);
      CAPTURE(word);
      CHECK(talk.ask(asked).starts_with("-ERR "));
    }
  }
  CHECK(talk.ask({"CL.THROTTLE", std::string(1025, 'k'), "1", "1", "1"}).starts_with("-ERR "));
  CHECK(talk.ask({"CL.THROTTLE", "k", "4294967294", "1", "31622400"})
            .starts_with("-ERR burst x period / count is too long"));
  CHECK(
      talk.ask({"CL.THROTTLE", "k", "1", "1"})
          .starts_with("-ERR wrong number of arguments for 'cl.throttle' command: key max_burst"));
  CHECK(talk.ask({"CL.THROTTLE", "k", "1", "1", "1", "1", "1"}).starts_with("-ERR wrong number"));
  // Nothing was charged by any of them.
  CHECK(talk.ask(good) == five("0,16,15,-1,2"));
}

TEST_CASE("more than a group, with other commands between, in order") {
  RespTalk talk;
  std::string asked, expected;
  for (int i = 0; i < 40; ++i) {
    asked += resp_array({"CL.THROTTLE", "k", "9", "1", "600"});
    expected += i < 10
                    ? five("0,10," + std::to_string(9 - i) + ",-1," + std::to_string(600 * (i + 1)))
                    : five("1,10,0,600,6000");
    if (i % 19 == 7) asked += "PING\r\n", expected += "+PONG\r\n";
    if (i % 19 == 9) {
      asked += resp_array({"CL.THROTTLE", "k", "x", "1", "600"});
      expected += "-ERR max_burst must be an integer from 0 to 4294967294\r\n";
    }
  }
  CHECK(talk.say(asked) == expected);
  CHECK(talk.count(frontend::RespCount::admitted) == 10);
  CHECK(talk.count(frontend::RespCount::denied) == 30);
}

TEST_CASE("named policies, in both protocols") {
  RespTalk talk(with_policies());
  CHECK(talk.ask({"PAIL.TAKE", "five", "a", "2"}) == "*5\r\n+ok\r\n:5\r\n:3\r\n:0\r\n:200\r\n");
  CHECK(talk.ask({"PAIL.PEEK", "five", "a"}) == "*5\r\n+ok\r\n:5\r\n:3\r\n:0\r\n:200\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "five", "a", "5"}) ==
        "*5\r\n+denied\r\n:5\r\n:3\r\n:200\r\n:200\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "five", "a", "6"}) == "*5\r\n+never\r\n:5\r\n:3\r\n:-1\r\n:200\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "five", "a", "0"}) ==
        "-ERR cost must be an integer from 1 to 4294967295\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "nope", "a"}) == "-ERR the server has no policy of this name\r\n");
  CHECK(talk.ask({"PAIL.TAKE", "five"}).starts_with("-ERR wrong number of arguments"));
  CHECK(talk.ask({"PAIL.TAKE", "queue", "a"}) == "*5\r\n+ok\r\n:1\r\n:0\r\n:0\r\n:100\r\n");
  // A queue tells how long to hold the request.
  CHECK(talk.ask({"PAIL.TAKE", "queue", "a"}) == "*5\r\n+ok\r\n:1\r\n:0\r\n:100\r\n:200\r\n");
  talk.ask({"HELLO", "3"});
  CHECK(talk.ask({"PAIL.TAKE", "five", "a"}) ==
        "%5\r\n+status\r\n+ok\r\n+limit\r\n:5\r\n+remaining\r\n:2\r\n+retry_after_ms\r\n:0\r\n"
        "+reset_after_ms\r\n:300\r\n");
}

TEST_CASE("a server that sheds load charges nothing") {
  RespTalk talk;
  const std::string take = resp_array({"CL.THROTTLE", "k", "4", "1", "60"});
  CHECK(talk.say(take + "PING\r\n", frontend::Service::shedding) ==
        "-OVERLOADED more is asked than can be answered in time; nothing was charged\r\n+PONG\r\n");
  CHECK(talk.say(take) == five("0,5,4,-1,60"));
}
