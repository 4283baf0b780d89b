// Concern: what happens is counted, on either backend, and STATS tells it. Method: known traffic
// on a server within the test.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "protocol/stats.hpp"
#include "server/journal.hpp"
#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using Numbers = std::map<std::string, std::uint64_t>;

// All pages of one shard, or of all of them.
Numbers read_stats(RawClient& client, std::uint32_t shard = 0) {
  Numbers numbers;
  for (std::uint32_t remaining = 1; remaining != 0;) {
    protocol::Request request;
    request.op = protocol::Op::stats;
    request.tag = 7;
    request.policy = shard;
    request.cost = static_cast<std::uint32_t>(numbers.size());
    REQUIRE(client.send(request_bytes(request)));
    const auto reply = client.reply();
    REQUIRE(reply);
    REQUIRE(reply->status == protocol::Status::ok);
    REQUIRE(reply->op == protocol::Op::stats);
    protocol::Bytes body = reply->body;
    while (!body.empty()) {
      const auto stat = protocol::take_stat(body);
      REQUIRE(stat);
      // A name that came twice would be one number less than the server says.
      REQUIRE(numbers.emplace(stat->name, stat->value).second);
    }
    remaining = reply->remaining;
  }
  return numbers;
}

TEST_CASE("traffic is counted by status, batch, byte and turn") {
  for (const auto io : kBackends) {
    TestServer server(local_config(io, 2));
    RawClient client = server.greeted();
    Octets stream;
    for (std::uint32_t i = 0; i < 8; ++i) {
      const Octets one = request_bytes(slow_take(i + 1, "k", 5));
      stream = joined(std::move(stream), one);
    }
    REQUIRE(client.send(stream));
    for (int i = 0; i < 8; ++i) REQUIRE(client.reply());
    RawClient http = server.connect();
    REQUIRE(http.send("GET / HTTP/1.1\r\n\r\n"));
    CHECK(http.wait_for_end());
    REQUIRE(eventually([&] { return server->connections() == 1; }));

    Numbers numbers = read_stats(client);
    CHECK(numbers["shards"] == 2);
    CHECK(numbers["keys"] == 1);
    CHECK(numbers["memory_limit"] == std::size_t{64} << 20);
    CHECK(numbers["table_bytes"] > 0);
    CHECK(numbers["keys_refused"] == 0);
    CHECK(numbers["connections"] == 1);
    CHECK(numbers["accepted"] == 2);
    CHECK(numbers["closed"] == 1);
    CHECK(numbers["hellos"] == 1);
    CHECK(numbers["refused_hellos"] == 1);
    CHECK(numbers["replies_ok"] == 5);
    CHECK(numbers["replies_denied"] == 3);
    CHECK(numbers["frames"] == 8);
    CHECK(numbers["batches"] >= 1);
    CHECK(numbers["received_bytes"] > stream.size());
    CHECK(numbers["sent_bytes"] >= 8 * protocol::kReplyHeaderBytes);
    std::uint64_t batches = 0;
    std::uint64_t timed = 0;
    for (const auto& [name, value] : numbers) {
      if (name.starts_with("turns_below_") || name.starts_with("turns_of_")) timed += value;
      if (name.starts_with("batches_of_")) batches += value;
    }
    CHECK(batches == numbers["batches"]);
    CHECK(timed > 0);
    CHECK(timed <= numbers["turns"]);

    Numbers first = read_stats(client, 1);
    Numbers second = read_stats(client, 2);
    CHECK(first["replies_denied"] + second["replies_denied"] == 3);
    CHECK(first["connections"] + second["connections"] == 1);
  }
}

// The names between backquotes of the tables; those that end in * stand for all that begin so.
class Documented {
 public:
  Documented() {
    std::ifstream file(PAIL_OPERATIONS_MD);
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("| `")) continue;
      line.resize(line.find(" | "));
      for (std::size_t at = 0; (at = line.find('`', at)) != std::string::npos;) {
        const std::size_t end = line.find('`', at + 1);
        names_.push_back(line.substr(at + 1, end - at - 1));
        at = end + 1;
      }
    }
  }
  [[nodiscard]] bool has(std::string_view name) const {
    return std::ranges::any_of(names_, [&](const std::string& one) {
      return one == name || (one.ends_with('*') && name.starts_with(one.substr(0, one.size() - 1)));
    });
  }

 private:
  std::vector<std::string> names_;
};

TEST_CASE("every number and every event is in docs/operations.md") {
  const Documented documented;
  CHECK_FALSE(documented.has("no_such_number"));
  TestServer server(local_config(kBackends[0], 1));
  RawClient client = server.greeted();
  for (const auto& [name, value] : read_stats(client)) {
    CAPTURE(name);
    CHECK(documented.has(name));
  }
  for (std::size_t i = 0; i < server::kFaults; ++i) {
    const std::string name(server::kind_of(static_cast<server::Fault>(i)).event.name);
    CAPTURE(name);
    CHECK(documented.has(name));
  }
}

}  // namespace
}  // namespace pail::test
