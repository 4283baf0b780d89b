// Concern: the audit finds every excess that is certain, and never accuses a server that kept its
// limit. Method: the definition itself, over all pairs of moments, beside the fast search on random
// grants; a right bucket seen through late messages.
#include "bench/audit.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/support/random.hpp"

namespace pail::bench {
namespace {

constexpr AuditBound kBound{1'000'000'000, 1000, 5, 0};  // 1000/s, burst 5

// granted x period - (burst x period + count x length), over all intervals: above 0 is too much.
std::int64_t naive_excess(const AuditBound& bound, const std::vector<Grant>& grants) {
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  const auto period = static_cast<std::int64_t>(bound.period_ns);
  for (const Grant& first : grants) {
    for (const Grant& last : grants) {
      const std::uint64_t begin = first.sent_ns - bound.slack_ns;
      const std::uint64_t end = last.received_ns;
      if (begin > end) continue;
      std::int64_t granted = 0;
      for (const Grant& grant : grants) {
        const bool is_within = grant.sent_ns - bound.slack_ns >= begin && grant.received_ns <= end;
        if (is_within) granted += grant.tokens;
      }
      if (granted == 0) continue;
      most = std::max(most, granted * period - bound.burst * period -
                                static_cast<std::int64_t>(bound.count * (end - begin)));
    }
  }
  return most;
}

double naive_ratio(const AuditBound& bound, const std::vector<Grant>& grants) {
  double most = 0;
  for (const Grant& first : grants) {
    for (const Grant& last : grants) {
      const std::uint64_t begin = first.sent_ns - bound.slack_ns;
      if (begin > last.received_ns) continue;
      double granted = 0;
      for (const Grant& grant : grants) {
        const bool is_within =
            grant.sent_ns - bound.slack_ns >= begin && grant.received_ns <= last.received_ns;
        if (is_within) granted += grant.tokens;
      }
      const auto length = static_cast<double>(last.received_ns - begin);
      const double allowed =
          bound.burst + length * bound.count / static_cast<double>(bound.period_ns);
      most = std::max(most, granted / allowed);
    }
  }
  return most;
}

TEST_CASE("the fast search finds what the definition finds") {
  test::Random random(1);
  int over = 0;
  for (int round = 0; round < 3000; ++round) {
    AuditBound bound = kBound;
    bound.slack_ns = random.below(3) * 500'000;
    std::vector<Grant> grants(random.between(1, 12));
    const std::uint64_t span = random.magnitude(1, 20'000'000);
    for (Grant& grant : grants) {
      grant.sent_ns = 10'000'000 + random.below(span);
      grant.received_ns = grant.sent_ns + random.below(span / 4 + 1);
      grant.tokens = static_cast<std::uint32_t>(random.between(1, 4));
    }
    const std::int64_t excess = naive_excess(bound, grants);
    const double ratio = naive_ratio(bound, grants);
    std::vector<Grant> copy = grants;
    const AuditResult result = audit(bound, copy);
    CAPTURE(round);
    CHECK((result.keys_over == 1) == (excess > 0));
    CHECK(result.worst.ratio == doctest::Approx(ratio).epsilon(1e-9));
    over += excess > 0;
  }
  // Both verdicts came up.
  CHECK(over > 300);
  CHECK(over < 2700);
}

TEST_CASE("exactly the bound is no excess, one token more is") {
  // Burst at once, then one token every millisecond, on the dot and seen at once.
  std::vector<Grant> grants;
  for (std::uint64_t i = 0; i < 5; ++i) grants.push_back({1'000'000, 1'000'000, 9, 1});
  for (std::uint64_t i = 1; i < 100; ++i) {
    grants.push_back({1'000'000 + i * 1'000'000, 1'000'000 + i * 1'000'000, 9, 1});
  }
  std::vector<Grant> copy = grants;
  const AuditResult right = audit(kBound, copy);
  CHECK(right.keys_over == 0);
  CHECK(right.worst.ratio == doctest::Approx(1.0));
  grants.push_back({50'500'000, 50'500'000, 9, 1});
  const AuditResult wrong = audit(kBound, grants);
  REQUIRE(wrong.keys_over == 1);
  CHECK(wrong.examples.front().key == 9);
  CHECK(wrong.worst.ratio > 1);
  CHECK(wrong.worst.end_ns >= 50'500'000);
}

TEST_CASE("one key in a crowd is found and named") {
  std::vector<Grant> grants;
  for (std::uint32_t key = 0; key < 1000; ++key) {
    const std::uint32_t count = key == 777 ? 7 : 4;
    for (std::uint32_t i = 0; i < count; ++i) grants.push_back({1000 + i, 2000 + i, key, 1});
  }
  const AuditResult result = audit(kBound, grants);
  CHECK(result.keys == 1000);
  CHECK(result.tokens == 4003);
  REQUIRE(result.keys_over == 1);
  CHECK(result.examples.front().key == 777);
  CHECK(result.examples.front().granted == 7);
}

TEST_CASE("a right bucket is never accused, however late its messages are") {
  test::Random random(2);
  for (int round = 0; round < 300; ++round) {
    // GCRA in nanoseconds: 1000/s is 1 ms a token.
    std::vector<Grant> grants;
    std::uint64_t tat = 0;
    std::uint64_t now = 1'000'000'000;
    const std::uint64_t lateness = random.magnitude(1, 100'000'000);
    for (int i = 0; i < 400; ++i) {
      now += random.below(1'500'000);
      const auto cost = static_cast<std::uint32_t>(random.between(1, 5));
      const std::uint64_t next = std::max(tat, now) + cost * 1'000'000;
      if (next > now + 5'000'000) continue;
      tat = next;
      grants.push_back({now - random.below(lateness), now + random.below(lateness), 1, cost});
    }
    CHECK(audit(kBound, grants).keys_over == 0);
  }
}

TEST_CASE("no grants: nothing wrong, nothing divided by zero") {
  std::vector<Grant> none;
  const AuditResult result = audit(kBound, none);
  CHECK(result.keys == 0);
  CHECK(result.keys_over == 0);
}

}  // namespace
}  // namespace pail::bench
