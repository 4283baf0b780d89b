// Concern: leases end to end, client and paild: most takes of a hot key cost no round trip, no
// token is spent twice, and close() returns what is left. Method: a real paild; what it has charged
// is asked over another connection.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <pail/client.hpp>
#include <thread>
#include <vector>

#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::Client;
using pail::Decision;
using pail::test::PaildProcess;

namespace {

const pail::Limit kLeased = pail::Limit::policy("leased");

Client connect(const PaildProcess& paild) {
  pail::ClientOptions options;
  options.deadline = 30s;
  options.connect_timeout = 30s;
  options.on_failure = pail::OnFailure::report;
  auto client = Client::connect(paild.address(), options);
  if (!client) FAIL("no connection: ", client.error().text);
  return std::move(*client);
}

// What has been charged of a burst that does not refill while a test runs.
std::uint32_t charged(const PaildProcess& paild, std::uint32_t burst) {
  pail::CallOptions only_look;
  only_look.cost = 0;
  Client client = connect(paild);
  const auto peek = client.peek(kLeased, "hot", only_look);
  REQUIRE(peek.has_value());
  return burst - peek->remaining;
}

}  // namespace

TEST_CASE("a hot key is decided here, and what is left comes back") {
  constexpr std::uint32_t kBurst = 1'000'000;
  PaildProcess paild({"--policy", "leased=1/120s,1000000,lease=30s/1%"});
  std::atomic<std::uint32_t> granted{0};
  std::uint32_t held_back = 0;
  {
    Client client = connect(paild);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 25'000; ++n) {
          const auto decision = client.take(kLeased, "hot");
          if (decision && decision->admitted()) granted += decision->granted;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(granted == 100'000);
    client.close();
    const auto counters = client.counters();
    CHECK(counters.lease_spent + counters.server_decisions == granted);
    CHECK(counters.lease_spent > granted / 2);
    CHECK(counters.leased ==
          counters.lease_spent + counters.lease_returned + counters.lease_expired);
    CHECK(counters.lease_returned > 0);
    held_back = static_cast<std::uint32_t>(counters.lease_expired);
  }
  // Of what comes back a part has been refilled since, which is lost: less than a token each time.
  CHECK(charged(paild, kBurst) >= granted);
  CHECK(charged(paild, kBurst) <= granted + held_back);
}

TEST_CASE("three clients share a burst exactly, leases or not") {
  constexpr std::uint32_t kBurst = 5000;
  PaildProcess paild({"--policy", "leased=1/h,5000,lease=30s/10%"});
  std::atomic<std::uint32_t> granted{0};
  std::uint64_t spent = 0;
  std::uint64_t lost = 0;
  {
    std::vector<Client> clients;
    for (int i = 0; i < 3; ++i) clients.push_back(connect(paild));
    std::vector<std::thread> threads;
    for (Client& client : clients) {
      threads.emplace_back([&] {
        for (int n = 0; n < 4000; ++n) {
          const auto decision = client.take(kLeased, "hot");
          if (decision && decision->admitted()) granted += decision->granted;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Client& client : clients) {
      client.close();
      spent += client.counters().lease_spent;
      lost += client.counters().leased - client.counters().lease_spent -
              client.counters().lease_returned;
    }
  }
  CHECK(spent > 0);
  CHECK(granted <= kBurst);
  CHECK(charged(paild, kBurst) >= granted);
  CHECK(charged(paild, kBurst) <= granted + lost);
}

TEST_CASE("a policy that is not leased never is, and a partial take asks the server") {
  PaildProcess paild(
      {"--policy", "plain=1/1000s,100000", "--policy", "leased=1/1000s,100000,lease=30s"});
  Client client = connect(paild);
  for (int i = 0; i < 1000; ++i) {
    CHECK(client.take(pail::Limit::policy("plain"), "hot")->source == Decision::Source::server);
    CHECK(client.take(kLeased, "hot", {.partial = true})->source == Decision::Source::server);
  }
  CHECK(client.counters().leased == 0);
}
