// Concern: counters count, end and answer as limiters know it from Redis. Method: sessions without
// a socket, under a clock that stands still unless told; a plain model beside random commands.
#include <doctest/doctest.h>

#include <map>

#include "tests/frontend/resp/resp_talk.hpp"
#include "tests/support/random.hpp"

using namespace pail;
using namespace pail::test;

namespace {

constexpr engine::Ticks kMs = engine::ticks_from_ns(1'000'000);
constexpr const char* kBeyond =
    "-ERR value is out of range: counters hold -4294967295 to 4294967295\r\n";

std::string number(std::int64_t value) {
  return ":" + std::to_string(value) + "\r\n";
}

}  // namespace

TEST_CASE("a limiter on INCRBY and EXPIRE, in one pipeline") {
  RespTalk talk;
  const std::string hit =
      resp_array({"INCRBY", "k", "1"}) + resp_array({"EXPIRE", "k", "60", "NX"});
  CHECK(talk.say(hit) == ":1\r\n:1\r\n");
  talk.pass(59 * kSecond);
  CHECK(talk.say(hit) == ":2\r\n:0\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":1\r\n");
  // Never early, and at most 1.05 ms late.
  talk.pass(kSecond - 1);
  CHECK(talk.ask({"GET", "k"}) == "$1\r\n2\r\n");
  talk.pass(2 * kMs);
  CHECK(talk.ask({"GET", "k"}) == "$-1\r\n");
  CHECK(talk.say(hit) == ":1\r\n:1\r\n");
}

TEST_CASE("counting, up and down, to the ends and not beyond") {
  RespTalk talk;
  CHECK(talk.ask({"incr", "k"}) == ":1\r\n");
  CHECK(talk.ask({"INCRBY", "k", "41"}) == ":42\r\n");
  CHECK(talk.ask({"DECR", "k"}) == ":41\r\n");
  CHECK(talk.ask({"DECRBY", "k", "50"}) == ":-9\r\n");
  CHECK(talk.ask({"GET", "k"}) == "$2\r\n-9\r\n");
  CHECK(talk.ask({"INCRBY", "k", "4294967304"}) == ":4294967295\r\n");
  CHECK(talk.ask({"INCR", "k"}) == kBeyond);
  CHECK(talk.ask({"INCRBY", "k", "9223372036854775807"}) == kBeyond);
  CHECK(talk.ask({"GET", "k"}) == "$10\r\n4294967295\r\n");
  CHECK(talk.ask({"DECRBY", "k", "8589934590"}) == ":-4294967295\r\n");
  CHECK(talk.ask({"DECR", "k"}) == kBeyond);
  CHECK(talk.ask({"INCRBY", "k", "x"}) == "-ERR value is not an integer or out of range\r\n");
  CHECK(
      talk.ask({"INCRBY", "k", "9223372036854775808"}).starts_with("-ERR value is not an integer"));
  CHECK(talk.ask({"INCR", ""}) == "-ERR a key is 1 to 1024 bytes\r\n");
  CHECK(talk.ask({"INCR", std::string(1025, 'k')}) == "-ERR a key is 1 to 1024 bytes\r\n");
}

TEST_CASE("a counter without an expiry says so, and ends after the default time") {
  RespTalk talk({.counter_life_ns = 10'000'000'000});
  CHECK(talk.ask({"TTL", "k"}) == ":-2\r\n");
  CHECK(talk.ask({"INCR", "k"}) == ":1\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":-1\r\n");
  CHECK(talk.ask({"PTTL", "k"}) == ":-1\r\n");
  talk.pass(9 * kSecond);
  CHECK(talk.ask({"INCR", "k"}) == ":2\r\n");
  talk.pass(kSecond + 2 * kMs);
  CHECK(talk.ask({"EXISTS", "k"}) == ":0\r\n");
}

TEST_CASE("EXPIRE and its conditions") {
  RespTalk talk;
  CHECK(talk.ask({"EXPIRE", "k", "10"}) == ":0\r\n");
  talk.ask({"INCR", "k"});
  CHECK(talk.ask({"EXPIRE", "k", "10", "XX"}) == ":0\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "10", "GT"}) == ":0\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "10", "LT"}) == ":1\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "20", "nx"}) == ":0\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "5", "GT"}) == ":0\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "20", "GT"}) == ":1\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "30", "LT"}) == ":0\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":20\r\n");
  CHECK(talk.ask({"PEXPIRE", "k", "1500"}) == ":1\r\n");
  CHECK(talk.ask({"PTTL", "k"}) == ":1501\r\n");  // rounded up to 1.05 ms
  CHECK(talk.ask({"EXPIRE", "k", "x"}) == "-ERR value is not an integer or out of range\r\n");
  CHECK(talk.ask({"EXPIRE", "k", "31622401"}).starts_with("-ERR invalid expire time"));
  CHECK(talk.ask({"EXPIRE", "k", "1", "NO"}).starts_with("-ERR unsupported option"));
  CHECK(talk.ask({"EXPIRE", "k", "-1"}) == ":1\r\n");
  CHECK(talk.ask({"EXISTS", "k"}) == ":0\r\n");
}

TEST_CASE("SET, GET, DEL and EXISTS") {
  RespTalk talk;
  CHECK(talk.ask({"SET", "k", "7", "EX", "60", "NX"}) == "+OK\r\n");
  CHECK(talk.ask({"SET", "k", "8", "NX", "PX", "1"}) == "$-1\r\n");
  CHECK(talk.ask({"SET", "k", "9", "KEEPTTL"}) == "+OK\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":60\r\n");
  CHECK(talk.ask({"SET", "k", "10"}) == "+OK\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":-1\r\n");
  CHECK(talk.ask({"SET", "other", "1", "XX"}) == "$-1\r\n");
  CHECK(talk.ask({"EXISTS", "k", "other", "k"}) == ":2\r\n");
  CHECK(talk.ask({"DEL", "k", "other"}) == ":1\r\n");
  CHECK(talk.ask({"UNLINK", "k"}) == ":0\r\n");
  CHECK(talk.ask({"GET", "k"}) == "$-1\r\n");
  CHECK(talk.ask({"INCR", "k"}) == ":1\r\n");
  CHECK(talk.ask({"SET", "k", "text"}) ==
        "-ERR value is not an integer: only counters are kept here\r\n");
  CHECK(talk.ask({"SET", "k", "4294967296"}) == kBeyond);
  CHECK(talk.ask({"SET", "k", "1", "EX", "0"}).starts_with("-ERR invalid expire time"));
  CHECK(talk.ask({"SET", "k", "1", "EX"}) == "-ERR syntax error\r\n");
  CHECK(talk.ask({"SET", "k", "1", "NX", "XX"}) == "-ERR syntax error\r\n");
  talk.ask({"HELLO", "3"});
  CHECK(talk.ask({"GET", "nobody"}) == "_\r\n");
}

TEST_CASE("INCREX: the value, and what was added") {
  RespTalk talk;
  CHECK(talk.ask({"INCREX", "k", "UBOUND", "0"}) == "*2\r\n:0\r\n:0\r\n");
  CHECK(talk.ask({"EXISTS", "k"}) == ":0\r\n");
  CHECK(talk.ask({"INCREX", "k", "BYINT", "3", "UBOUND", "5", "EX", "60", "ENX"}) ==
        "*2\r\n:3\r\n:3\r\n");
  talk.pass(10 * kSecond);
  CHECK(talk.ask({"INCREX", "k", "ubound", "5", "ex", "60", "enx", "byint", "2"}) ==
        "*2\r\n:5\r\n:2\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":50\r\n");
  CHECK(talk.ask({"INCREX", "k", "UBOUND", "5", "EX", "60"}) == "*2\r\n:5\r\n:0\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":50\r\n");
  CHECK(talk.ask({"INCREX", "k", "BYINT", "-1", "PX", "90000"}) == "*2\r\n:4\r\n:-1\r\n");
  CHECK(talk.ask({"TTL", "k"}) == ":90\r\n");
  CHECK(talk.ask({"INCREX", "k", "ENX"}) == "-ERR ENX is for EX or PX\r\n");
  CHECK(talk.ask({"INCREX", "k", "BYINT"}) == "-ERR syntax error\r\n");
  CHECK(talk.ask({"INCREX", "k", "BYFLOAT", "1"}) == "-ERR syntax error\r\n");
  CHECK(talk.ask({"INCREX", "k", "LBOUND", "6", "UBOUND", "5"}) ==
        "-ERR LBOUND is above UBOUND\r\n");
  CHECK(talk.ask({"INCREX", "k", "UBOUND", "5", "LBOUND", "5", "BYINT", "1"}) ==
        "*2\r\n:5\r\n:1\r\n");
}

TEST_CASE("counters and limits of one name do not meet") {
  RespTalk talk;
  talk.ask({"INCRBY", "k", "1000"});
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "60"}) == "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n");
  CHECK(talk.ask({"GET", "k"}) == "$4\r\n1000\r\n");
  talk.ask({"DEL", "k"});
  CHECK(talk.ask({"CL.THROTTLE", "k", "0", "1", "60"}).starts_with("*5\r\n:1\r\n"));
}

TEST_CASE("room for a counter, and none") {
  RespTalk talk({.memory_limit_bytes = 0});
  CHECK(talk.ask({"GET", "a"}) == "$-1\r\n");
  CHECK(talk.ask({"INCREX", "a", "BYINT", "9", "UBOUND", "1"}) == "*2\r\n:0\r\n:0\r\n");
  CHECK(talk.ask({"INCR", "c"}) == "-OOM no room for a new key\r\n");
  CHECK(
      talk.say(resp_array({"INCR", "b"}), frontend::Service::shedding).starts_with("-OVERLOADED "));
}

// The model forgets at once what the counters may keep a little longer, so that nothing is asked in
// between.
TEST_CASE("random commands against a map") {
  struct Entry {
    std::int64_t value;
    engine::Ticks end;
    bool has_expiry;
  };
  RespTalk talk;
  std::map<std::string, Entry> model;
  engine::Ticks now = kStart;
  Random random;
  for (int n = 0; n < 20'000; ++n) {
    if (random.one_in(4)) {
      // Beyond the rounding of whatever ends meanwhile.
      const engine::Ticks step = random.below(40) * kSecond + 3 * engine::kCounterCoarseTicks;
      now += step;
      talk.pass(step);
      std::erase_if(model, [&](const auto& one) {
        return one.second.end + 2 * engine::kCounterCoarseTicks <= now;
      });
      // What ends just now may be there or not: let it go in both.
      std::vector<std::string> ending;
      for (const auto& [key, entry] : model) {
        if (entry.end <= now) ending.push_back(key);
      }
      for (const std::string& key : ending) talk.ask({"DEL", key}), model.erase(key);
    }
    const std::string key = "k" + std::to_string(random.below(5));
    const auto there = model.find(key);
    const auto value = there == model.end() ? 0 : there->second.value;
    switch (random.below(5)) {
      case 0: {
        const auto amount = static_cast<std::int64_t>(random.magnitude(1, 3'000'000'000)) *
                            (random.one_in(2) ? 1 : -1);
        const std::int64_t sum = value + amount;
        const bool fits = sum >= engine::kLeastCounted && sum <= engine::kMostCounted;
        REQUIRE(talk.ask({"INCRBY", key, std::to_string(amount)}) ==
                (fits ? number(sum) : kBeyond));
        if (!fits) break;
        if (there != model.end()) {
          there->second.value = sum;
        } else {
          model[key] = {sum, now + engine::ticks_from_ns(engine::kDefaultCounterNs), false};
        }
        break;
      }
      case 1: {
        const std::uint64_t life_s = random.between(1, 100);
        REQUIRE(talk.ask({"EXPIRE", key, std::to_string(life_s)}) ==
                number(there != model.end() ? 1 : 0));
        if (there != model.end()) {
          there->second.end = now + life_s * kSecond;
          there->second.has_expiry = true;
        }
        break;
      }
      case 2:
        REQUIRE(talk.ask({"DEL", key}) == number(there != model.end() ? 1 : 0));
        model.erase(key);
        break;
      case 3: {
        const std::string text = std::to_string(value);
        REQUIRE(talk.ask({"GET", key}) ==
                (there == model.end()
                     ? "$-1\r\n"
                     : "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"));
        break;
      }
      default: {
        const std::string answer = talk.ask({"PTTL", key});
        if (there == model.end() || !there->second.has_expiry) {
          REQUIRE(answer == number(there == model.end() ? -2 : -1));
          break;
        }
        const auto left = std::stoll(answer.substr(1));
        const auto exact = static_cast<long long>((there->second.end - now) / kMs);
        REQUIRE(left >= exact);
        REQUIRE(left <= exact + 2 * 2148);
      }
    }
  }
}
