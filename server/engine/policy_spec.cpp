#include "server/engine/policy_spec.hpp"

#include <fmt/format.h>

#include <limits>

#include "server/engine/concurrency.hpp"
#include "server/engine/rate.hpp"
#include "server/engine/refund.hpp"

namespace pail::engine {
namespace {

constexpr std::uint64_t kMostTokens = std::numeric_limits<std::uint32_t>::max();

bool is_bucket(Algorithm algorithm) {
  return algorithm == Algorithm::token_bucket || algorithm == Algorithm::leaky_bucket;
}

std::string check_reserve(const PolicySpec& spec, std::uint32_t most) {
  for (std::size_t p = 0; p < kPriorities; ++p) {
    if (spec.reserve[p] > most) {
      return fmt::format("reserve {} of priority {} is more than the limit of {}", spec.reserve[p],
                         p, most);
    }
    if (p > 0 && spec.reserve[p] > spec.reserve[p - 1]) {
      return fmt::format("priority {} leaves a larger reserve ({}) than priority {} ({})", p,
                         spec.reserve[p], p - 1, spec.reserve[p - 1]);
    }
  }
  return {};
}

std::string check_max_debt(const PolicySpec& spec, std::uint32_t most) {
  if (most + std::uint64_t{spec.max_debt} <= kMostTokens) return {};
  return fmt::format("the limit and max_debt together are more than {} tokens", kMostTokens);
}

std::string check_bucket(const PolicySpec& spec) {
  if (std::string fault = check_rate(spec.rate); !fault.empty()) return fault;
  const TokenBucket bucket = make_token_bucket(spec.rate).value();
  if (std::string fault = check_reserve(spec, bucket.burst); !fault.empty()) return fault;
  if (std::string fault = check_max_debt(spec, bucket.burst); !fault.empty()) return fault;
  const detail::Wide wait = detail::Wide{spec.max_wait_ns} * kTicksPerNs;
  const detail::Wide debt = detail::Wide{spec.max_debt} * bucket.per_token;
  if (bucket.tolerance + std::max(wait, debt) > kMaxHorizon) {
    return "burst x period / count and the longer of max_wait and max_debt together are too long: "
           "4.5 years at most";
  }
  return {};
}

std::string check_window(const PolicySpec& spec) {
  const bool is_month = spec.window.seconds == 0;
  if (spec.algorithm == Algorithm::concurrency) {
    if (is_month || spec.window.seconds > kMaxPermitSeconds) {
      return "a permit's ttl is 1 s to 1 h, in whole seconds";
    }
    return {};
  }
  if (!is_month && spec.window.seconds > kMaxWindowSeconds) {
    return "the window is too long: 366 days at most";
  }
  if (is_month && spec.algorithm != Algorithm::fixed_window) {
    return "a sliding window is a number of seconds: months are for fixed windows";
  }
  if (spec.window.anchor_day < 1 || spec.window.anchor_day > 31) {
    return "the anchor of a month is a day from 1 to 31";
  }
  return {};
}

std::string check_counted(const PolicySpec& spec) {
  if (spec.limit == 0) return "the limit is 0: it must be at least 1, or nothing is ever admitted";
  if (std::string fault = check_window(spec); !fault.empty()) return fault;
  if (std::string fault = check_reserve(spec, spec.limit); !fault.empty()) return fault;
  if (spec.algorithm == Algorithm::concurrency && spec.max_debt != 0) {
    return "permits are given back, not settled: no max_debt";
  }
  return check_max_debt(spec, spec.limit);
}

std::string check_lease(const PolicySpec& spec) {
  const LeaseTerms& lease = spec.lease;
  if (lease.ttl_ns == 0) return {};
  if (spec.algorithm != Algorithm::token_bucket) return "only token buckets are leased";
  if (lease.ttl_ns < kMinLeaseNs || lease.ttl_ns > kMaxLeaseNs) {
    return "a lease lasts 10 ms to 60 s";
  }
  if (lease.share_percent < 1 || lease.share_percent > 100) {
    return "a lease is 1 % to 100 % of what is left";
  }
  return lease.least == 0 ? "the smallest lease is at least 1 token" : "";
}

}  // namespace

std::string check_policy(const PolicySpec& spec) {
  if (spec.percent > 100) return fmt::format("percent is {}: 0 to 100", spec.percent);
  if (spec.algorithm != Algorithm::leaky_bucket && spec.max_wait_ns != 0) {
    return "max_wait is for a leaky bucket, the only limit that holds requests";
  }
  if (std::string fault = check_lease(spec); !fault.empty()) return fault;
  return is_bucket(spec.algorithm) ? check_bucket(spec) : check_counted(spec);
}

Limit make_limit(const PolicySpec& spec) {
  Limit limit;
  limit.algorithm = spec.algorithm;
  limit.max_debt = spec.max_debt;
  limit.lease = spec.lease;
  if (is_bucket(spec.algorithm)) {
    limit.queue.bucket = make_token_bucket(spec.rate).value();
    limit.queue.bucket.reserve = spec.reserve;
    limit.queue.max_wait = spec.max_wait_ns * kTicksPerNs;
  } else {
    limit.counted = {spec.limit, spec.reserve};
    limit.rule = spec.window;
  }
  return limit;
}

Limit overdrawable(const Limit& limit) noexcept {
  Limit deep = limit;
  deep.algorithm =
      limit.algorithm == Algorithm::leaky_bucket ? Algorithm::token_bucket : limit.algorithm;
  deep.queue = {overdrawable(limit.queue.bucket, limit.max_debt), 0};
  deep.counted = {limit.counted.most + limit.max_debt, {}};
  return deep;
}

}  // namespace pail::engine
