// Concern: Redis clients are served beside native ones, by the same rules and on the same budgets,
// over either backend. Method: a server within the test, and sockets that say every byte
// themselves.
#include <poll.h>
#include <sys/socket.h>

#include <fstream>
#include <sstream>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using namespace server;

constexpr const char* kToken = "plain-token-0123456789";
constexpr const char* kOther = "other-token-0123456789";

std::string resp_array(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return text;
}

Config resp_config(IoChoice io, unsigned shards = 2) {
  Config config = local_config(io, shards);
  config.resp = {*protocol::parse_address("127.0.0.1:0")};
  return config;
}

// A client that reads text.
class TextClient {
 public:
  explicit TextClient(TestServer& server) : raw_(server->addresses(Protocol::resp).front()) {}

  bool send(std::string_view text) { return raw_.send(text); }
  // The next bytes; fewer where the server hung up, or said nothing more for long.
  std::string read(std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) {
      pollfd waiting{raw_.descriptor(), POLLIN, 0};
      constexpr auto kPatience = std::chrono::milliseconds(kRawPatience).count();
      if (::poll(&waiting, 1, static_cast<int>(kPatience)) <= 0) break;
      char part[4096];
      const auto size =
          ::recv(raw_.descriptor(), part, std::min(sizeof part, bytes - text.size()), 0);
      if (size <= 0) break;
      text.append(part, static_cast<std::size_t>(size));
    }
    return text;
  }
  // Whether the answer to `words` is this.
  bool hears(const std::vector<std::string>& words, const std::string& answer) {
    return send(resp_array(words)) && read(answer.size()) == answer;
  }
  std::string ask(const std::vector<std::string>& words, std::size_t bytes) {
    return send(resp_array(words)) ? read(bytes) : "";
  }
  bool wait_for_end() { return raw_.wait_for_end(); }
  RawClient& raw() { return raw_; }

 private:
  RawClient raw_;
};

std::string five(std::string numbers) {
  std::string text = "*5\r\n";
  for (char& c : numbers) c = c == ',' ? ' ' : c;
  std::istringstream in(numbers);
  for (std::string one; in >> one;) text += ":" + one + "\r\n";
  return text;
}

TEST_CASE("recorded answers to CL.THROTTLE, over the wire") {
  for (const auto io : kBackends) {
    CAPTURE(static_cast<int>(io));
    TestServer server(resp_config(io));
    TextClient client(server);
    std::ifstream file(PAIL_CL_THROTTLE_VECTORS);
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
      const std::string key = "key" + std::to_string(keys++);
      while (quantities >> quantity) {
        REQUIRE(static_cast<bool>(replies >> reply));
        asked += resp_array({"CL.THROTTLE", key, burst, count, period, quantity});
        expected += five(reply);
      }
      REQUIRE(client.send(asked));
      CHECK(client.read(expected.size()) == expected);
    }
    CHECK(keys >= 500);
    CHECK(server->count(frontend::RespCount::errors) == 0);
  }
}

TEST_CASE("both protocols spend the same budget") {
  for (const auto io : kBackends) {
    TestServer server(resp_config(io));
    TextClient redis(server);
    RawClient native = server.greeted();
    CHECK(redis.hears({"CL.THROTTLE", "alice", "9", "1", "100000"}, five("0,10,9,-1,100000")));
    protocol::Request take = slow_take(1, "alice", 10);
    take.inline_limit = {100'000'000'000'000, 1, 10};
    REQUIRE(native.send(request_bytes(take)));
    const auto reply = native.reply();
    REQUIRE(reply);
    CHECK(reply->remaining == 8);
    CHECK(server->count(ShardCount::accepted) == 2);
  }
}

TEST_CASE("INFO tells how many keys there are") {
  for (const auto io : kBackends) {
    TestServer server(resp_config(io));
    TextClient client(server);
    CHECK(client.hears({"INFO", "keyspace"}, "$12\r\n# Keyspace\r\n\r\n"));
    CHECK(client.hears({"INCR", "one"}, ":1\r\n"));
    CHECK(client.hears({"CL.THROTTLE", "two", "0", "1", "1000"}, five("0,1,0,-1,1000")));
    CHECK(client.hears({"INFO", "keyspace"},
                       "$44\r\n# Keyspace\r\ndb0:keys=2,expires=2,avg_ttl=0\r\n\r\n"));
  }
}

TEST_CASE("a deep pipeline in pieces of any size is answered in order") {
  for (const auto io : kBackends) {
    TestServer server(resp_config(io));
    TextClient client(server);
    std::string asked, expected;
    for (int i = 0; i < 2000; ++i) {
      const std::string word =
          "w" + std::to_string(i) + std::string(static_cast<std::size_t>(i) % 60, 'x');
      asked += resp_array({"ECHO", word});
      expected += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
      if (i % 7 == 0) {
        asked += resp_array({"CL.THROTTLE", "k" + std::to_string(i), "0", "1", "1000"});
        expected += five("0,1,0,-1,1000");
      }
    }
    Random random;
    for (std::size_t at = 0; at < asked.size();) {
      const std::size_t size = std::min<std::size_t>(random.magnitude(1, 9000), asked.size() - at);
      REQUIRE(client.send(std::string_view(asked).substr(at, size)));
      at += size;
    }
    CHECK(client.read(expected.size()) == expected);
  }
}

TEST_CASE("HTTP closes the connection before anything runs") {
  for (const auto io : kBackends) {
    TestServer server(resp_config(io));
    const std::string take = "CL.THROTTLE victim 4 1 100000\r\n";
    for (const std::string head :
         {"POST / HTTP/1.1\r\n", "GET /x HTTP/1.1\r\n", "Host: example.com\r\n", "post /\r\n"}) {
      CAPTURE(head);
      TextClient browser(server);
      browser.send(head + take + take);
      CHECK(browser.wait_for_end());
    }
    TextClient client(server);
    CHECK(client.hears({"CL.THROTTLE", "victim", "4", "1", "100000", "0"}, five("0,5,5,-1,0")));
    CHECK(server->count(frontend::RespCount::malformed) == 4);
  }
}

TEST_CASE("QUIT is answered, then the connection ends, and is no fault") {
  for (const auto io : kBackends) {
    TestServer server(resp_config(io));
    TextClient client(server);
    REQUIRE(client.send("QUIT\r\nPING\r\n"));
    CHECK(client.read(100) == "+OK\r\n");
    CHECK(server->fault_totals()[static_cast<std::size_t>(Fault::malformed)] == 0);
  }
}

TEST_CASE("tokens: shown by AUTH, in time, and only while they are valid") {
  for (const auto io : kBackends) {
    Config config = resp_config(io);
    config.tokens = *parse_tokens(std::string("gw ") + kToken + "\n", "tokens");
    config.limits.hello_timeout_ms = 100;
    config.limits.tick_ms = 20;
    TestServer server(config);
    TextClient silent(server);
    CHECK(silent.wait_for_end());
    CHECK(server->count(ShardCount::hello_timeouts) == 1);

    TextClient guesser(server);
    CHECK(
        guesser.hears({"AUTH", kOther}, "-WRONGPASS this server wants a token that it knows\r\n"));
    CHECK(guesser.wait_for_end());

    TextClient client(server);
    CHECK(client.hears({"AUTH", "default", kToken}, "+OK\r\n"));
    CHECK(client.hears({"PING"}, "+PONG\r\n"));
    server->replace_tokens(*parse_tokens(std::string("gw ") + kOther + "\n", "tokens"));
    CHECK(client.read(1000) == "-NOAUTH the token of this connection is no longer valid\r\n");
    CHECK(server->fault_totals()[static_cast<std::size_t>(Fault::unauthorized)] == 2);
  }
}

TEST_CASE("a server that stops answers what it has received, and hangs up") {
  for (const auto io : kBackends) {
    Config config = resp_config(io);
    config.limits.goodbye_ms = 0;
    config.limits.tick_ms = 20;
    TestServer server(config);
    TextClient client(server);
    CHECK(client.hears({"PING"}, "+PONG\r\n"));
    server->stop();
    CHECK(client.wait_for_end());
    CHECK(server->wait(std::chrono::milliseconds(kRawPatience)));
  }
}

TEST_CASE("whoever asks for much and reads nothing is read no more, and the others are served") {
  for (const auto io : kBackends) {
    Config config = resp_config(io, 1);
    TestServer server(config);
    TextClient greedy(server);
    const std::string command = resp_array({"ECHO", std::string(4000, 'x')});
    std::size_t sent = 0;  // of `command`, again and again
    CHECK(eventually([&] {
      sent += greedy.raw().send_some(protocol::as_body(std::string_view(command).substr(sent)));
      sent %= command.size();
      return server->count(ShardCount::read_stops) != 0;
    }));
    TextClient client(server);
    CHECK(client.hears({"PING"}, "+PONG\r\n"));
  }
}

TEST_CASE("a port that is taken: an error where it was asked for, else a reason") {
  TestServer first(resp_config(IoChoice::epoll));
  Config config = local_config(IoChoice::epoll);
  config.resp = {*protocol::parse_address(first->addresses(Protocol::resp).front())};
  CHECK_FALSE(Server::start(config));
  config.is_resp_by_default = true;
  TestServer second(config);
  CHECK(second.is_healthy());
  CHECK(second->addresses(Protocol::resp).empty());
  CHECK(second->resp_fault().find("cannot listen on") != std::string::npos);
  CHECK(first->resp_fault().empty());
}

}  // namespace
}  // namespace pail::test
