// The limiter in process: no server, no address.
#include <pail/limiter.hpp>

int main() {
  auto limiter = pail::Limiter::make({.policies = {"api=1/d,2"}});
  if (!limiter) return 1;
  const auto api = pail::Limit::policy("api");
  for (const bool is_admitted : {true, true, false}) {
    const auto decision = limiter->take(api, "alice");
    if (!decision || decision->admitted() != is_admitted) return 1;
  }
  return 0;
}
