// The engine as its callers see it: requests in, decisions out, time in the test's hands.
#include "server/engine/engine.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string_view>
#include <vector>

using namespace pail::engine;

namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

constexpr Ticks kSecond = ticks_from_ns(1'000'000'000);
constexpr Ticks kStart = 1000 * kSecond;

Request take(std::string_view key, Rate rate, std::uint32_t cost = 1) {
  Request request;
  request.has_inline_rate = true;
  request.inline_rate = rate;
  request.cost = cost;
  request.key = bytes(key);
  return request;
}

Decision decide(Worker& worker, const Request& request, Ticks now) {
  Decision decision;
  worker.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

}  // namespace

TEST_CASE("a bucket of 20 refilled at 5/s admits 20, 5, 10 and 20") {
  Engine engine(Options{.max_keys = 16});
  const auto worker = engine.enroll();
  const Rate rate{1'000'000'000, 5, 20};
  const auto admitted = [&](int requests, Ticks at) {
    const std::vector<Request> batch(static_cast<std::size_t>(requests), take("k", rate));
    std::vector<Decision> decisions(batch.size());
    worker->decide(batch, at, decisions);
    int count = 0;
    for (const Decision& decision : decisions) count += decision.verdict == Verdict::admitted;
    return count;
  };
  CHECK(admitted(30, kStart) == 20);
  CHECK(admitted(10, kStart + kSecond) == 5);
  CHECK(admitted(10, kStart + 3 * kSecond) == 10);
  CHECK(admitted(25, kStart + 9 * kSecond) == 20);
}

TEST_CASE("3/s with burst 1 tells exactly when to come again") {
  Engine engine(Options{.max_keys = 16});
  const auto worker = engine.enroll();
  const Request request = take("k", {1'000'000'000, 3, 1});
  CHECK(decide(*worker, request, kStart).verdict == Verdict::admitted);
  const Decision refused = decide(*worker, request, kStart);
  CHECK(refused.verdict == Verdict::denied);
  CHECK(refused.wait_ns == 333'333'334);
  const Ticks due = kStart + ticks_from_ns(refused.wait_ns);
  CHECK(decide(*worker, request, due - ticks_from_ns(1)).verdict == Verdict::denied);
  CHECK(decide(*worker, request, due).verdict == Verdict::admitted);
}
