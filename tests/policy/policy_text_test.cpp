// The one-line form of policies: each kind, each option, and each mistake with words that help.
#include "server/policy/policy_text.hpp"

#include <doctest/doctest.h>

#include <string>

namespace pail::policy {
namespace {

using engine::Algorithm;
using engine::PolicySpec;
using engine::WindowRule;

PolicySpec parse(std::string_view text) {
  const auto spec = parse_policy_text(text);
  if (!spec) FAIL(std::string(text), ": ", spec.error());
  return *spec;
}

void check_error(std::string_view text, std::string_view says) {
  CAPTURE(std::string(text));
  const auto spec = parse_policy_text(text);
  REQUIRE_FALSE(spec.has_value());
  CAPTURE(spec.error());
  CHECK(spec.error().find(says) != std::string::npos);
}

TEST_CASE("policies of every kind") {
  CHECK(parse("partner=10/s,20").algorithm == Algorithm::token_bucket);
  CHECK(parse("partner=10/s,20").rate == engine::Rate{1'000'000'000, 10, 20});
  CHECK(parse("a=bucket:10/s,20").rate.burst == 20);

  const PolicySpec queue = parse("jobs=leaky:10/s,1,max_wait=2500ms");
  CHECK(queue.algorithm == Algorithm::leaky_bucket);
  CHECK(queue.max_wait_ns == 2'500'000'000);

  const PolicySpec fixed = parse("api=fixed:1000/min");
  CHECK(fixed.algorithm == Algorithm::fixed_window);
  CHECK(fixed.limit == 1000);
  CHECK(fixed.window == WindowRule::every(60));
  CHECK(parse("a=fixed:5/30d").window == WindowRule::every(30 * 86'400));
  CHECK(parse("a=fixed:5/week").window == WindowRule::week());
  CHECK(parse("a=fixed:5/month").window == WindowRule::month());
  CHECK(parse("a=fixed:5/month,anchor=15").window == WindowRule::month(15));

  const PolicySpec sliding = parse("a=sliding:100/90s,reserve=30/10");
  CHECK(sliding.algorithm == Algorithm::sliding_window);
  CHECK(sliding.window == WindowRule::every(90));
  CHECK(sliding.reserve == std::array<std::uint32_t, 4>{30, 10, 0, 0});

  const PolicySpec permits = parse("render=concurrency:10,ttl=30s,reserve=2");
  CHECK(permits.algorithm == Algorithm::concurrency);
  CHECK(permits.limit == 10);
  CHECK(permits.window == WindowRule::every(30));
  CHECK(parse("llm=100/s,1000,max_debt=500").max_debt == 500);
  CHECK(parse("api=100/s,1000").lease.ttl_ns == 0);
  CHECK(parse("api=100/s,1000,lease=200ms").lease.ttl_ns == 200'000'000);
  CHECK(parse("api=100/s,1000,lease=200ms").lease.share_percent == 10);
  CHECK(parse("api=100/s,1000,lease=1s/25%").lease.share_percent == 25);
  CHECK(parse("api=100/s,1000,lease=1s/25%/3").lease.least == 3);
}

TEST_CASE("policies that are written wrongly") {
  check_error("partner", "name=rate,burst");
  check_error("partner=10/s", "name=rate,burst");
  check_error("=1/s,1", "1 to 64");
  check_error("a b=1/s,1", "1 to 64");
  check_error("a=1/s,0", "at least 1");
  check_error("a=1/s,5,7", "name=rate,burst");
  check_error("a=1/s,5,burst=7", "none of this policy");
  check_error("a=round:1/s", "no kind of limit");
  check_error("a=fixed:10", "window is missing");
  check_error("a=fixed:10/500ms", "whole seconds");
  check_error("a=fixed:10/400d", "366 days");
  check_error("a=fixed:10/fortnight", "week and a month");
  check_error("a=fixed:0/min", "at least 1");
  check_error("a=fixed:10/min,anchor=3", "none of this policy");
  check_error("a=fixed:10/month,anchor=32", "1 to 31");
  check_error("a=sliding:10/month", "months are for fixed");
  check_error("a=concurrency:10", "ttl");
  check_error("a=concurrency:10,ttl=2h", "1 h");
  check_error("a=concurrency:10/s,ttl=2s", "at once");
  check_error("a=concurrency:10,ttl=2s,max_debt=5", "max_debt");
  check_error("a=concurrency:10,ttl=2s,lease=1s", "only token buckets are leased");
  check_error("a=leaky:10/s,5,lease=1s", "only token buckets are leased");
  for (const char* wrong : {"0s", "1s/10", "1s/x%", "1s/10%/8/2", "", "1s/10%/x"}) {
    check_error("a=100/s,1000,lease=" + std::string(wrong), "");
  }
  check_error("a=100/s,1000,lease=1ms", "10 ms to 60 s");
  check_error("a=100/s,1000,lease=2min", "10 ms to 60 s");
  check_error("a=100/s,1000,lease=1s/0%", "1 % to 100 %");
  check_error("a=100/s,1000,lease=1s/101%", "1 % to 100 %");
  check_error("a=100/s,1000,lease=1s/10%/0", "at least 1");
  check_error("a=1/s,5,max_wait=2s", "leaky");
  check_error("a=1/s,5,ttl=2s", "none of this policy");
  check_error("a=1/s,5,reserve=6", "more than the limit");
  check_error("a=1/s,5,reserve=1/2", "larger reserve");
  check_error("a=1/s,5,reserve=1/1/1/1/1", "4 at most");
  check_error("a=1/s,5,reserve=-1", "whole number");
  check_error("a=1/s,5,reserve=1,reserve=1", "twice");
  check_error("a=1/s,5,reserve=", "whole number");
  check_error("a=1000000/s,4294967295,max_debt=1", "together");
  check_error("a=leaky:1/d,5,max_wait=2000d", "4.5 years");
}

}  // namespace
}  // namespace pail::policy
