// Uses something of every public header. Usage: gateway ADDRESS
#include <cstdio>
#include <pail/client.hpp>
#include <pail/decision.hpp>
#include <pail/error.hpp>
#include <pail/failure.hpp>
#include <pail/http.hpp>
#include <pail/key.hpp>
#include <pail/limit.hpp>
#include <pail/retry.hpp>
#include <pail/stats.hpp>
#include <pail/token.hpp>

int main(int, char** words) {
  auto client = pail::Client::connect(words[1]);
  if (!client) return std::fprintf(stderr, "%s\n", client.error().text.c_str()), 1;
  const auto limit = pail::Limit::rate(1, std::chrono::hours(24), 2);
  pail::CallOptions call;
  call.deadline = std::chrono::seconds(10);
  for (const bool is_admitted : {true, true, false}) {
    const auto decision = client->take(limit, "alice", call);
    if (!decision || decision->admitted() != is_admitted) return 1;
    if (!is_admitted && pail::http::retry_after_seconds(*decision) < 1) return 1;
  }
  if (client->counters().server_decisions != 3 || client->counters().fallback_open != 0) return 1;
  if (pail::key::of_address("2001:db8::1") != "2001:db8::/64") return 1;
  if (!pail::Retry({}).after_failure()) return 1;
  const pail::Result<pail::ServerStats> stats = client->stats(0, call);
  if (!stats || stats->shards == 0) return 1;
  const auto token = pail::token_from_file("/nowhere/token");
  return !token && token.error().code == pail::ErrorCode::bad_argument ? 0 : 1;
}
