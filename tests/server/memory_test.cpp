// Concern: at the memory limit nothing that is live is given up. Method: a thousand keys are
// brought to their limit, then a flood of fresh keys comes, many times what fits; afterwards the
// thousand must have not one token more, and keys that got in must still be served.
#include <algorithm>
#include <string>

#include "tests/server/fixture.hpp"

namespace pail::test {
namespace {

using protocol::Status;

constexpr std::size_t kBatch = 500;

// Takes from `count` keys, `burst` each at most; how many were admitted, refused, without room.
struct Outcome {
  std::size_t admitted = 0, denied = 0, full = 0;
};
Outcome take_each(RawClient& client, const char* prefix, std::size_t first, std::size_t count,
                  std::uint32_t burst) {
  Outcome outcome;
  for (std::size_t at = first; at < first + count; at += kBatch) {
    const std::size_t size = std::min(kBatch, first + count - at);
    Octets bytes;
    for (std::size_t i = 0; i < size; ++i) {
      const Octets one = request_bytes(slow_take(1, prefix + std::to_string(at + i), burst));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    REQUIRE(client.send(bytes));
    for (std::size_t i = 0; i < size; ++i) {
      const auto reply = client.reply();
      REQUIRE(reply);
      outcome.admitted += reply->status == Status::ok ? 1U : 0U;
      outcome.denied += reply->status == Status::denied ? 1U : 0U;
      outcome.full += reply->status == Status::table_full ? 1U : 0U;
    }
  }
  return outcome;
}

TEST_CASE("a flood of fresh keys at the memory limit costs the others nothing") {
  constexpr std::size_t kLimited = 1000;
  constexpr std::size_t kFlood = 1'500'000;
  server::Config config = local_config();
  config.memory_bytes = std::size_t{16} << 20;
  TestServer server(config);
  RawClient client = server.greeted();
  CHECK(take_each(client, "limited", 0, kLimited, 2).admitted == kLimited);
  CHECK(take_each(client, "limited", 0, kLimited, 2).admitted == kLimited);

  std::size_t entered = 0;
  std::size_t at = 0;
  Outcome last;
  while (at < kFlood && last.full < 20 * kBatch) {
    last = take_each(client, "flood", at, 50 * kBatch, 3);
    entered += last.admitted;
    at += 50 * kBatch;
  }
  CHECK(last.full >= 20 * kBatch);
  CHECK(entered > 200'000);
  CHECK(server->count(Status::table_full) > 0);
  CHECK(server->fault_totals()[static_cast<std::size_t>(server::Fault::table_full)] ==
        server->count(Status::table_full));

  CHECK(take_each(client, "limited", 0, kLimited, 2).denied == kLimited);
  const Outcome first = take_each(client, "flood", 0, 1000, 3);  // came when there was room
  CHECK(first.admitted == 1000);
}

TEST_CASE("with --on-full admit a new key is let through, and counted") {
  server::Config config = local_config();
  config.memory_bytes = 1;  // no room for anybody
  config.on_full = engine::OnFull::admit;
  TestServer server(config);
  RawClient client = server.greeted();
  CHECK(take_each(client, "k", 0, 100, 2).admitted == 100);
  CHECK(server->count(Status::table_full) == 0);
  CHECK(server->fault_totals()[static_cast<std::size_t>(server::Fault::table_full)] == 100);
}

}  // namespace
}  // namespace pail::test
