// The audit: did the server ever grant more than its limit allows?
//
// A bucket of `burst` tokens, refilled at `rate`, grants in every interval of length t at most
// burst + rate x t tokens. When exactly a grant happened is not seen from here, but it lies between
// the sending of the request and the receiving of its reply. So for all moments a <= b
//
//     sum of the grants with sent >= a and received <= b    <=    burst + rate x (b - a)
//
// must hold: those grants happened within [a, b] for certain. A right server never breaks it,
// however late packets and threads are; a wrong one does as soon as the excess is larger than what
// the uncertain times can explain. It is checked for every a and b that can matter: a is some
// request's `sent`, b some reply's `received`. For n grants of a key that is n^2 / 2 intervals,
// found in n log n steps: grants are visited by `received`, and a segment tree over the values of a
// holds (grants so far with sent >= a) + rate x a, whose maximum gives the worst a for this b.
//
// One thing is added on the server's side: it reads its clock once a turn, so a decision may be as
// of a moment before the request was sent. `slack_ns` moves `sent` back by that.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/audit_sample.hpp"

namespace pail::bench {

// At most burst + count x t / period tokens in every t. A sliding window of `limit` in `period` has
// count and burst of `limit`.
struct AuditBound {
  std::uint64_t period_ns = 0;
  std::uint32_t count = 0;
  std::uint32_t burst = 0;
  std::uint64_t slack_ns = 1'000'000;
};

// The interval of one key in which most was granted, measured by the bound.
struct AuditFinding {
  std::uint32_t key = 0;
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t granted = 0;
  double bound = 0;  // tokens
  double ratio = 0;  // granted / bound; above 1 is too much
};

struct AuditResult {
  std::uint64_t keys = 0;
  std::uint64_t grants = 0;
  std::uint64_t tokens = 0;
  std::uint64_t keys_over = 0;  // that were granted too much in some interval
  AuditFinding worst;           // by ratio
  std::vector<AuditFinding>
      examples;  // of keys that got too much, at most kMaxExamples, worst first

  static constexpr std::size_t kMaxExamples = 10;
};

// Reorders the grants.
[[nodiscard]] AuditResult audit(const AuditBound& bound, std::span<Grant> grants);

// What several processes granted, for one audit of all: a file with the bound and the grants. Keys
// are numbers, so the processes must be given the same keys; and times are of one machine's clock.
struct AuditLog {
  AuditBound bound;
  std::vector<Grant> grants;
};
[[nodiscard]] tl::expected<void, std::string> write_audit_log(const std::string& path,
                                                              const AuditBound& bound,
                                                              std::span<const Grant> grants);
[[nodiscard]] tl::expected<AuditLog, std::string> read_audit_log(const std::string& path);

}  // namespace pail::bench
