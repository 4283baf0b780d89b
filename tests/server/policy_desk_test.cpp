// What operators ask about policies over the wire: answered in pages, refused with a reason, and
// for administrators only.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <sstream>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

server::Config config_of(unsigned policies) {
  server::Config config = local_config();
  for (unsigned i = 0; i < policies; ++i) {
    config.definitions.emplace_back();
    config.definitions.back().name = "policy-" + std::to_string(i);
    config.definitions.back().numbers.rate = {100, 1'000'000'000};
  }
  config.policies = policy::to_list(config.definitions, 0)->policies;
  return config;
}

struct Answer {
  protocol::Status status = protocol::Status::ok;
  std::uint32_t lines = 0;
  std::uint32_t remaining = 0;
  std::uint32_t version = 0;
  std::string text;
};

Answer ask(RawClient& client, std::initializer_list<std::string_view> words,
           std::uint32_t skip = 0) {
  std::string key;
  for (const std::string_view word : words) {
    if (word.data() != words.begin()->data()) key += '\0';
    key += word;
  }
  protocol::Request request;
  request.op = protocol::Op::policy;
  request.tag = 5;
  request.cost = skip;
  request.key = protocol::as_body(key);
  REQUIRE(client.send(request_bytes(request)));
  const auto reply = client.reply();
  REQUIRE(reply);
  CHECK(reply->tag == 5);
  return {reply->status, reply->granted, reply->remaining, reply->limit,
          std::string(protocol::as_text(reply->body))};
}

TEST_CASE("each word of operators is answered") {
  TestServer server(config_of(2));
  RawClient client = server.greeted();
  const Answer list = ask(client, {"list"});
  CHECK(list.lines == 2);
  CHECK(list.version == 1);
  CHECK(list.text.find("policy-0") == 0);
  CHECK(list.text.find("100/s, burst 100\n") != std::string::npos);
  CHECK(ask(client, {"show", "policy-1"}).text.find("name = \"policy-1\"\n") != std::string::npos);
  CHECK(ask(client, {"set", "policy-1", "rate=5/s", "mode=shadow"}).text ==
        "version 2 is in force\n");
  CHECK(ask(client, {"list"}).text.find("5/s, burst 5 shadow changed\n") != std::string::npos);
  CHECK(ask(client, {"override", "policy-0", "alice", "rate=7/s", "for=1h"}).version == 3);
  CHECK(ask(client, {"explain", "policy-0", "alice"}).text.find("override: 7/s, burst 7 until 2") !=
        std::string::npos);
  CHECK(ask(client, {"explain", "policy-0", "bob"}).text.find("no override") != std::string::npos);
  CHECK(ask(client, {"override", "policy-0", "alice", "clear"}).version == 4);
  CHECK(ask(client, {"scale", "policy-0", "0.5", "for=10min"}).version == 5);
  const std::string exported = ask(client, {"export"}).text;
  CHECK(policy::parse_file(exported));
  CHECK(exported.find("mode = \"shadow\"") != std::string::npos);
  CHECK(ask(client, {"rollback", "1"}).version == 6);
  CHECK(ask(client, {"list"}).text.find("changed") == std::string::npos);
  const Answer history = ask(client, {"history"});
  CHECK(history.lines == 6);
  CHECK(history.text.find(" set policy-1 rate=5/s mode=shadow\n") != std::string::npos);
  CHECK(history.text.find("alice") == std::string::npos);
}

TEST_CASE("what was counted under each policy, tiers and overrides included") {
  server::Config config = config_of(2);
  config.definitions[0].tiers.push_back({"gold", {}, 0});
  config.policies = policy::to_list(config.definitions, 0)->policies;
  TestServer server(config);
  RawClient client = server.connect();
  REQUIRE(client.send(hello_bytes()));
  const auto hello = client.frame();
  REQUIRE(hello);
  const auto greeting = protocol::decode_hello_reply(*hello);
  REQUIRE(greeting);
  protocol::Request take;
  take.op = protocol::Op::take;
  take.cost = 2;
  take.key = protocol::as_body("k");
  for (const std::string_view name : {"policy-0", "policy-0/gold", "policy-0/gold"}) {
    take.tag = 7;
    take.policy = protocol::policy_id(name);
    REQUIRE(client.send(request_bytes(take)));
    REQUIRE(client.reply());
  }
  take.expires_us = static_cast<std::uint32_t>(greeting->clock_us) - 1'000'000;
  REQUIRE(client.send(request_bytes(take)));
  CHECK(client.reply()->status == protocol::Status::expired);
  REQUIRE(ask(client, {"override", "policy-1", "alice", "rate=7/s"}).version == 2);
  std::istringstream lines(ask(client, {"stats"}).text);
  std::vector<std::vector<std::string>> table;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    table.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  using Row = std::vector<std::string>;
  REQUIRE(table.size() == 4);
  CHECK(table[0] == Row{"policy", "admitted", "denied", "shed", "never", "expired", "shadow",
                        "table_full", "tokens", "overrides"});
  CHECK(table[1] == Row{"policy-0", "1", "0", "0", "0", "0", "0", "0", "2", "0"});
  CHECK(table[2] == Row{"policy-0/gold", "2", "0", "0", "0", "1", "0", "0", "4", "0"});
  CHECK(table[3] == Row{"policy-1", "0", "0", "0", "0", "0", "0", "0", "0", "1"});
}

TEST_CASE("what cannot be done says why, and changes nothing") {
  TestServer server(config_of(1));
  RawClient client = server.greeted();
  const std::initializer_list<std::initializer_list<std::string_view>> cases = {
      {"dance"},
      {"list", "all"},
      {"show"},
      {"show", "policy-9"},
      {"explain", "policy-0"},
      {"set", "policy-0"},
      {"set", "policy-0", "rate=fast"},
      {"override", "policy-0"},
      {"override", "policy-0", "", "rate=1/s"},
      {"scale", "policy-0", "0.5"},
      {"scale", "policy-0", "0"},
      {"reload"},
      {"rollback", "7"},
      {"rollback", "one"},
      {"export", ""}};
  for (const auto& words : cases) {
    const Answer answer = ask(client, words);
    CHECK(answer.status == protocol::Status::bad_request);
    CHECK_FALSE(answer.text.empty());
    CHECK(answer.text.size() <= protocol::kMaxErrorTextBytes);
  }
  CHECK(ask(client, {"show", "policy-9"}).text.find("is \"policy-0\" meant?") != std::string::npos);
  CHECK(ask(client, {"list"}).version == 1);
}

TEST_CASE("a long answer comes in pages of whole lines") {
  TestServer server(config_of(500));
  RawClient client = server.greeted();
  std::string text;
  std::uint32_t lines = 0;
  for (int pages = 0;; ++pages) {
    REQUIRE(pages < 20);
    const Answer page = ask(client, {"list"}, lines);
    CHECK(page.text.size() <= protocol::kMaxPolicyBodyBytes);
    CHECK(page.text.back() == '\n');
    lines += page.lines;
    CHECK(lines + page.remaining == 500);
    text += page.text;
    if (page.remaining == 0) break;
  }
  CHECK(std::count(text.begin(), text.end(), '\n') == 500);
  CHECK(text.find("policy-499") != std::string::npos);
  CHECK(ask(client, {"list"}, 600).lines == 0);
}

bool greet_with(RawClient& client, std::string_view token) {
  protocol::Hello hello;
  hello.token = token;
  std::array<std::byte, protocol::kMaxHelloBytes> bytes;
  if (!client.send(std::span(bytes).first(protocol::encode(hello, bytes)))) return false;
  const auto frame = client.frame();
  if (!frame) return false;
  const auto reply = protocol::decode_hello_reply(*frame);
  return reply && reply->status == protocol::Status::ok;
}

TEST_CASE("only administrators ask") {
  server::Config config = config_of(1);
  config.tokens =
      server::parse_tokens("gateway 0123456789abcdef0\nops 0123456789abcdef1 admin\n", "tokens")
          .value();
  TestServer server(config);
  RawClient gateway(server.address());
  REQUIRE(greet_with(gateway, "0123456789abcdef0"));
  CHECK(ask(gateway, {"list"}).status == protocol::Status::unauthorized);
  CHECK(ask(gateway, {"set", "policy-0", "mode=off"}).status == protocol::Status::unauthorized);
  CHECK(server->policies().version() == 1);
  RawClient ops(server.address());
  REQUIRE(greet_with(ops, "0123456789abcdef1"));
  CHECK(ask(ops, {"set", "policy-0", "mode=off"}).version == 2);
}

}  // namespace
}  // namespace pail::test
