// Concern: a program may be written against pail::Limiter and run with pail::Client, or the other
// way. Method: one suite, run over both; the client's server is a real paild.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <optional>
#include <pail/client.hpp>
#include <pail/limiter.hpp>
#include <string>
#include <vector>

#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::Decision;
using pail::ErrorCode;
using pail::Limit;

namespace {

const std::vector<std::string> kPolicies = {
    "bucket=1/d,5,reserve=2", "leaky=leaky:1/h,1,max_wait=2h", "fixed=fixed:3/30d",
    "sliding=sliding:4/30d",  "jobs=concurrency:2,ttl=1h",     "all=1/d,100"};

// Each makes what it is about, and gives it as `limiter`.
struct InProcess {
  pail::Limiter limiter = make();
  static pail::Limiter make() {
    auto made = pail::Limiter::make({.policies = kPolicies});
    if (!made) FAIL(made.error().text);
    return std::move(*made);
  }
};
struct OverTheWire {
  pail::test::PaildProcess paild{arguments()};
  pail::Client limiter = connect(paild.address());
  static std::vector<std::string> arguments() {
    std::vector<std::string> words;
    for (const std::string& policy : kPolicies) {
      words.push_back("--policy");
      words.push_back(policy);
    }
    return words;
  }
  static pail::Client connect(const std::string& address) {
    pail::ClientOptions options;
    options.deadline = 30s;
    options.connect_timeout = 30s;
    options.on_failure = pail::OnFailure::report;
    auto client = pail::Client::connect(address, options);
    if (!client) FAIL(client.error().text);
    return std::move(*client);
  }
};

template <class T>
ErrorCode code_of(const pail::Result<T>& result) {
  REQUIRE_FALSE(result.has_value());
  CHECK_FALSE(result.error().text.empty());
  return result.error().code;
}

}  // namespace

TEST_CASE_TEMPLATE("a token bucket, its reserve, and what it says", Over, InProcess, OverTheWire) {
  Over over;
  auto& limiter = over.limiter;
  const auto bucket = Limit::policy("bucket");
  const auto first = limiter.take(bucket, "k");
  REQUIRE(first.has_value());
  CHECK(first->admitted());
  CHECK(first->granted == 1);
  CHECK(first->limit == 5);
  CHECK(first->remaining == 2);
  CHECK(first->retry_after == 0ns);
  CHECK(first->reset_after > 23h);
  CHECK_FALSE(first->is_fallback());
  CHECK(limiter.take(bucket, "k", {.cost = 2})->admitted());
  const auto shed = limiter.take(bucket, "k");
  CHECK(shed->status == Decision::Status::shed);
  CHECK(shed->retry_after > 0ns);
  CHECK(limiter.take(bucket, "k", {.cost = 9, .priority = 3, .partial = true})->granted == 2);
  CHECK(limiter.take(bucket, "k", {.priority = 3})->status == Decision::Status::denied);
  const auto never = limiter.take(bucket, "k", {.cost = 6});
  CHECK(never->status == Decision::Status::never);
  CHECK(never->retry_after == Decision::kForever);
  CHECK(limiter.peek(bucket, "other", {.cost = 3})->remaining == 0);
  CHECK(limiter.peek(bucket, "other", {.cost = 0})->remaining == 3);
  CHECK(limiter.reset(bucket, "k").has_value());
  CHECK(limiter.take(bucket, "k", {.cost = 3})->admitted());
}

TEST_CASE_TEMPLATE("an inline rate is its key's", Over, InProcess, OverTheWire) {
  Over over;
  auto& limiter = over.limiter;
  const auto rate = Limit::rate(1, 24h, 2);
  CHECK(limiter.take(rate, "k")->remaining == 1);
  CHECK(limiter.take(Limit::rate(1, 24h, 4), "k")->remaining == 2);
  CHECK(limiter.take(rate, std::string("k\0", 2))->remaining == 1);
}

TEST_CASE_TEMPLATE("queues, windows and permits", Over, InProcess, OverTheWire) {
  Over over;
  auto& limiter = over.limiter;
  const auto leaky = Limit::policy("leaky");
  CHECK(limiter.take(leaky, "k")->hold == 0ns);
  const auto held = limiter.take(leaky, "k");
  CHECK(held->admitted());
  CHECK(held->hold > 59min);
  CHECK(limiter.take(leaky, "k")->admitted());
  CHECK_FALSE(limiter.take(leaky, "k")->admitted());
  for (int i = 0; i < 3; ++i) CHECK(limiter.take(Limit::policy("fixed"), "k")->admitted());
  CHECK_FALSE(limiter.take(Limit::policy("fixed"), "k")->admitted());
  CHECK(limiter.take(Limit::policy("sliding"), "k", {.cost = 4})->admitted());
  CHECK_FALSE(limiter.take(Limit::policy("sliding"), "k")->admitted());

  const auto jobs = Limit::policy("jobs");
  const auto permit = limiter.acquire(jobs, "k", {.cost = 2});
  REQUIRE(permit.has_value());
  CHECK(permit->admitted());
  CHECK(permit->grant != 0);
  CHECK(permit->grant_expires > std::chrono::steady_clock::now() + 59min);
  CHECK_FALSE(limiter.acquire(jobs, "k")->admitted());
  const auto renewed = limiter.renew(jobs, "k", permit->grant, {.cost = 2});
  CHECK(renewed->admitted());
  CHECK(limiter.release(jobs, "k", renewed->grant, {.cost = 2})->granted == 2);
  CHECK(limiter.acquire(jobs, "k")->admitted());
}

TEST_CASE_TEMPLATE("layers, all or none", Over, InProcess, OverTheWire) {
  Over over;
  auto& limiter = over.limiter;
  const std::array<pail::Layer, 2> layers{
      {{Limit::policy("all"), "everybody", 1}, {Limit::policy("fixed"), "k", 1}}};
  for (int i = 0; i < 3; ++i) CHECK(limiter.take_all(layers)->admitted());
  const auto refused = limiter.take_all(layers);
  REQUIRE(refused.has_value());
  CHECK_FALSE(refused->admitted());
  CHECK(refused->refusing == 1);
  REQUIRE(refused->layers.size() == 2);
  CHECK(refused->layers[0].remaining == 97);
  CHECK(refused->layers[1].remaining == 0);
}

TEST_CASE_TEMPLATE("what is wrong is told with the same words", Over, InProcess, OverTheWire) {
  Over over;
  auto& limiter = over.limiter;
  const auto rate = Limit::rate(1, 1s, 1);
  CHECK(code_of(limiter.take(Limit::policy("none"), "k")) == ErrorCode::unknown_policy);
  CHECK(code_of(limiter.take(rate, "")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(rate, std::string(1025, 'k'))) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(rate, "k", {.cost = 0})) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(rate, "k", {.priority = 4})) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(Limit::rate(0, 1s, 1), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(Limit::rate(1, -1s, 1), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(Limit::rate(1, 366 * 24h, 5), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.acquire(Limit::policy("bucket"), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take(Limit::policy("jobs"), "k")) == ErrorCode::bad_argument);
  CHECK(code_of(limiter.take_all({})) == ErrorCode::bad_argument);
  const std::array<pail::Layer, 2> twice{
      {{Limit::policy("all"), "k", 1}, {Limit::policy("all"), "k", 1}}};
  CHECK(code_of(limiter.take_all(twice)) == ErrorCode::bad_argument);
}
