// Concern: what is leased is never spent beyond the bound of protocol/PROTOCOL.md, section 3.3,
// whatever clients do: random demand, requests and answers that take their time, crashes, stalls,
// returns. Method: a clock of our own, the engine's own leasing as the server, three caches as
// clients; every window of every run is counted.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/src/lease_cache.hpp"
#include "server/engine/engine.hpp"
#include "tests/support/random.hpp"

using namespace std::chrono_literals;
using pail::Decision;
using pail::internal::LeaseCache;
using pail::internal::Time;
using std::chrono::nanoseconds;

namespace {

namespace engine = pail::engine;

constexpr nanoseconds kTtl = 200ms;

engine::PolicySpec leased(std::uint32_t id, engine::Rate rate, engine::LeaseTerms terms) {
  engine::PolicySpec spec{"p" + std::to_string(id), id, rate};
  spec.lease = terms;
  return spec;
}

constexpr std::uint64_t kTtlNs = 200'000'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;

// The limiter, and who holds which lease.
class Server {
 public:
  Server() : engine_(options()), worker_(engine_.enroll()) {}

  Decision take(std::uint32_t policy, const std::string& key, std::uint32_t cost, Time now) {
    engine::Request request;
    request.policy = policy;
    request.cost = cost;
    request.key = std::as_bytes(std::span(key));
    engine::Decision decision;
    worker_->decide({&request, 1}, ticks(now), {&decision, 1});
    Decision told;
    told.status = decision.verdict == engine::Verdict::admitted ? Decision::Status::admitted
                                                                : Decision::Status::denied;
    told.granted = decision.granted;
    told.limit = decision.limit;
    told.remaining = decision.remaining;
    told.retry_after = nanoseconds(decision.wait_ns);
    return told;
  }

  // What the reply to a LEASE says; granted 0 and a wait where it is refused.
  struct Answer {
    LeaseCache::Lease lease;
    bool is_refused = false;
    nanoseconds wait{0};
  };
  Answer lease(int client, const LeaseCache::Errand& errand, Time now) {
    engine::Decision decision;
    engine::Receipt receipt;
    Answer answer;
    answer.lease.ttl =
        nanoseconds(worker_->lease(request_of(errand), ticks(now), decision, receipt));
    answer.is_refused = decision.verdict != engine::Verdict::admitted;
    answer.wait = nanoseconds(decision.wait_ns);
    answer.lease.granted = decision.granted;
    answer.lease.remaining = decision.remaining;
    answer.lease.limit = decision.limit;
    if (decision.granted != 0) {
      answer.lease.grant = next_grant_++;
      ledger_[answer.lease.grant] = {client, receipt, now + answer.lease.ttl};
    }
    return answer;
  }
  void give_back(int client, const LeaseCache::Errand& errand, Time now) {
    const auto found = ledger_.find(errand.grant);
    if (found == ledger_.end() || found->second.client != client) return;
    if (now < found->second.expires) {
      engine::Decision decision;
      worker_->give_back(request_of(errand), found->second.receipt, ticks(now), decision);
    }
    ledger_.erase(found);
  }
  void disconnect(int client) {
    std::erase_if(ledger_, [&](const auto& entry) { return entry.second.client == client; });
  }

 private:
  struct Held {
    int client = 0;
    engine::Receipt receipt;
    Time expires{};
  };
  static engine::Options options() {
    engine::Options options;
    options.policies = {
        leased(1, {kSecondNs, 1000, 500}, {kTtlNs, 10, 8}),
        leased(2, {kSecondNs, 50, 20}, {kTtlNs, 50, 2}),
        leased(3, {kSecondNs, 100'000, 10'000}, {kTtlNs, 100, 1}),
        leased(4, {std::uint64_t{86'400} * kSecondNs, 1, 100}, {kTtlNs, 10, 8}),
        leased(5, {kSecondNs, 3, 3}, {kTtlNs, 10, 8}),
    };
    return options;
  }
  static engine::Ticks ticks(Time now) {
    return engine::ticks_from_ns(static_cast<std::uint64_t>(now.time_since_epoch().count()));
  }
  static engine::Request request_of(const LeaseCache::Errand& errand) {
    engine::Request request;
    request.policy = errand.policy;
    request.cost = errand.tokens;
    request.key = std::as_bytes(std::span(errand.key));
    return request;
  }

  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  std::uint64_t next_grant_ = 1;
  std::map<std::uint64_t, Held> ledger_;
};

// One client: a cache, and a LEASE that may be on its way.
struct Client {
  explicit Client(std::uint64_t seed) : cache(std::make_unique<LeaseCache>(64, seed)) {}
  std::unique_ptr<LeaseCache> cache;
  struct Fetch {
    LeaseCache::Errand errand;
    Time sent_at;
    Server::Answer answer;
    Time arrives;
  };
  std::optional<Fetch> fetch;

  std::uint64_t held() const {
    const auto counters = cache->read();
    const std::uint64_t on_the_way = fetch ? fetch->answer.lease.granted : 0;
    return counters.leased - counters.spent - counters.returned - counters.expired + on_the_way;
  }
};

class World {
 public:
  World(Server& server, std::uint32_t policy, std::string key, Time start, std::uint64_t seed,
        int clients)
      : server_(server), policy_(policy), key_(std::move(key)), now_(start), random_(seed) {
    for (int i = 0; i < clients; ++i) clients_.emplace_back(random_.next());
  }

  // What one client does with one request; the tokens that it was admitted with.
  std::uint32_t request(int number, std::uint32_t cost) {
    Client& client = clients_[static_cast<std::size_t>(number)];
    bool is_hungry = false;
    std::uint64_t outstanding = 0;
    for (const Client& each : clients_) outstanding += each.held();
    auto decision = client.cache->take(policy_, key_, cost, 0, now_, is_hungry);
    if (decision) {
      by_lease_ += decision->granted;
      if (!decision->admitted()) CHECK(decision->retry_after > 0ns);
    } else {
      const Time sent_at = now_;
      decision = server_.take(policy_, key_, cost, now_);
      (void)client.cache->on_server_decision(policy_, key_, cost, 0, *decision, sent_at);
    }
    if (!decision->admitted()) return 0;
    admitted_.push_back({now_, decision->granted, outstanding});
    return decision->granted;
  }

  // Answers that have arrived, and a LEASE if one is due.
  void errands(int number, nanoseconds delay) {
    Client& client = clients_[static_cast<std::size_t>(number)];
    if (client.fetch && client.fetch->arrives <= now_) {
      const auto& [errand, sent_at, answer, arrives] = *client.fetch;
      if (answer.is_refused) {
        client.cache->on_refusal(errand.slot, answer.wait, sent_at);
      } else {
        auto lease = answer.lease;
        lease.sent_at = sent_at;
        client.cache->on_lease(errand.slot, lease);
      }
      client.fetch.reset();
    }
    if (client.fetch) return;
    const auto errand = client.cache->next_errand(now_);
    if (!errand) return;
    const Time sent_at = now_;
    now_ += delay / 2;  // it is on its way
    client.fetch = {*errand, sent_at, server_.lease(number, *errand, now_), now_ + delay / 2};
  }

  void crash(int number) {
    server_.disconnect(number);
    clients_[static_cast<std::size_t>(number)] = Client(random_.next());
  }
  void give_back(int number) {
    auto& client = clients_[static_cast<std::size_t>(number)];
    for (const auto& errand : client.cache->take_out(now_)) server_.give_back(number, errand, now_);
  }
  void sweep(int number) { (void)clients_[static_cast<std::size_t>(number)].cache->sweep(now_); }
  void pass(nanoseconds time) { now_ += time; }
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] std::uint64_t by_lease() const { return by_lease_; }
  pail::test::Random& random() { return random_; }

  // Tokens above the bound in the worst window, 0 if all is well.
  [[nodiscard]] double excess(double rate, double burst) const {
    double worst = 0;
    for (std::size_t from = 0; from < admitted_.size(); ++from) {
      double sum = 0;
      for (std::size_t to = from; to < admitted_.size(); ++to) {
        sum += admitted_[to].tokens;
        const auto s = std::chrono::duration<double>(admitted_[to].at - admitted_[from].at).count();
        const double by_time = burst + rate * (s + std::chrono::duration<double>(kTtl).count());
        const double by_held = burst + rate * s + static_cast<double>(admitted_[from].outstanding);
        worst = std::max(worst, sum - std::min(by_time, by_held));
      }
    }
    return worst;
  }

 private:
  struct Admitted {
    Time at;
    std::uint32_t tokens;
    std::uint64_t outstanding;
  };
  Server& server_;
  const std::uint32_t policy_;
  const std::string key_;
  Time now_;
  pail::test::Random random_;
  std::vector<Client> clients_;
  std::vector<Admitted> admitted_;
  std::uint64_t by_lease_ = 0;
};

}  // namespace

TEST_CASE("in no window is more admitted than the bound, over 1,000 seeds") {
  struct Case {
    std::uint32_t policy;
    double rate;
    double burst;
    std::uint64_t busiest_ns;  // pause between two requests, at most
  };
  constexpr Case kCases[] = {
      {1, 1000, 500, 3'000'000}, {2, 50, 20, 30'000'000}, {3, 100'000, 10'000, 100'000}};
  Server server;
  pail::test::Random seeds(21);
  Time start{std::chrono::hours(1)};
  std::uint64_t by_lease = 0;
  for (int seed = 0; seed < 1000; ++seed) {
    const Case& chosen = kCases[seed % 3];
    World world(server, chosen.policy, "key" + std::to_string(seed), start, seeds.next(), 3);
    auto& random = world.random();
    for (int i = 0; i < 300; ++i) {
      const int client = static_cast<int>(random.below(3));
      world.pass(nanoseconds(random.below(random.one_in(40) ? 300'000'000 : chosen.busiest_ns)));
      const std::uint64_t what = random.below(100);
      if (what == 0) {
        world.crash(client);
      } else if (what == 1) {
        world.give_back(client);
      } else if (what < 4) {
        world.sweep(client);
      } else {
        (void)world.request(client, random.one_in(8) ? 3 : 1);
        if (!random.one_in(6)) {  // else it stalls
          world.errands(client, nanoseconds(random.below(random.one_in(8) ? 50'000'000 : 500'000)));
        }
      }
    }
    CAPTURE(seed);
    REQUIRE(world.excess(chosen.rate, chosen.burst) <= 1e-6);
    by_lease += world.by_lease();
    start = world.now() + 1h;
  }
  CHECK(by_lease > 10'000);  // it is leases that were tested
}

TEST_CASE("near the limit leases shrink to single takes: of a burst of 100 three clients get 100") {
  Server server;
  World world(server, 4, "key", Time(std::chrono::hours(1)), 5, 3);
  std::uint32_t admitted = 0;
  for (int i = 0; i < 3000; ++i) {
    world.pass(10us);
    admitted += world.request(i % 3, 1);
    world.errands(i % 3, 4us);
  }
  CHECK(admitted == 100);
  CHECK(world.by_lease() > 10);
}

TEST_CASE("3 a second shared by five clients is neither exceeded nor starved") {
  Server server;
  World world(server, 5, "key", Time(std::chrono::hours(1)), 6, 5);
  std::uint32_t admitted = 0;
  for (int i = 0; i < 60'000; ++i) {  // a minute, a thousand requests a second
    world.pass(1ms);
    admitted += world.request(i % 5, 1);
    world.errands(i % 5, 100us);
  }
  const double seconds =
      std::chrono::duration<double>(world.now() - Time(std::chrono::hours(1))).count();
  CHECK(admitted <= 3 + 3 * seconds);
  CHECK(admitted >= 3 * seconds - 3);
}

TEST_CASE("a hot key costs one round trip in a hundred takes, or fewer") {
  Server server;
  World world(server, 3, "key", Time(std::chrono::hours(1)), 7, 1);
  std::uint64_t admitted = 0;
  for (int i = 0; i < 100'000; ++i) {  // 50,000 a second
    world.pass(20us);
    admitted += world.request(0, 1);
    world.errands(0, 100us);
  }
  CHECK(admitted == 100'000);
  CHECK(world.by_lease() >= 99'000);
}
