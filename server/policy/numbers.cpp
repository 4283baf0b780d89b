#include "server/policy/numbers.hpp"

#include <fmt/format.h>

namespace pail::policy {
namespace {

using engine::Algorithm;

bool is_window(Algorithm algorithm) {
  return algorithm == Algorithm::fixed_window || algorithm == Algorithm::sliding_window;
}

template <class T>
void take_from(std::optional<T>& value, const std::optional<T>& below) {
  if (!value) value = below;
}

}  // namespace

Numbers layered(const Numbers& top, const Numbers& below) {
  Numbers both = top;
  take_from(both.algorithm, below.algorithm);
  const Algorithm algorithm = both.algorithm.value_or(Algorithm::token_bucket);
  take_from(both.reserve, below.reserve);
  if (algorithm != Algorithm::concurrency) take_from(both.max_debt, below.max_debt);
  if (algorithm == Algorithm::token_bucket) take_from(both.lease, below.lease);
  if (algorithm == Algorithm::leaky_bucket) take_from(both.max_wait_ns, below.max_wait_ns);
  if (is_bucket(algorithm)) {
    if (both.rate && !both.burst) both.burst = both.rate->count;
    take_from(both.rate, below.rate);
    take_from(both.burst, below.burst);
    return both;
  }
  take_from(both.limit, below.limit);
  // The window of another kind means something else: rounds of a ttl.
  if (below.algorithm.value_or(algorithm) == algorithm) take_from(both.window, below.window);
  return both;
}

std::string fault_in(const Numbers& numbers, Algorithm algorithm) {
  const std::string_view kind = name(algorithm);
  if (!is_bucket(algorithm) && (numbers.rate || numbers.burst)) {
    return fmt::format("rate and burst are for buckets: a {} has {}", kind,
                       is_window(algorithm) ? "limit = 1000 and window = \"1min\""
                                            : "limit = 10 and ttl = \"30s\"");
  }
  if (is_bucket(algorithm) && (numbers.limit || numbers.window)) {
    return fmt::format(
        "limit, window and ttl are for windows and permits: a {} has rate = \"100/s\" and burst = "
        "200",
        kind);
  }
  if (algorithm != Algorithm::leaky_bucket && numbers.max_wait_ns) {
    return fmt::format(
        "max_wait is for a leaky_bucket, the only limit that holds requests: a {} "
        "has none, leave it out",
        kind);
  }
  if (algorithm != Algorithm::token_bucket && numbers.lease) {
    return fmt::format("lease is for a token_bucket: a {} is not leased, leave it out", kind);
  }
  if (algorithm == Algorithm::concurrency && numbers.max_debt) {
    return "max_debt is not for concurrency: permits are given back, not settled; leave it out";
  }
  return {};
}

Parsed<engine::PolicySpec> to_spec(const std::string& name, const Numbers& numbers) {
  engine::PolicySpec spec;
  spec.name = name;
  spec.id = protocol::policy_id(name);
  spec.algorithm = numbers.algorithm.value_or(Algorithm::token_bucket);
  if (std::string fault = fault_in(numbers, spec.algorithm); !fault.empty()) {
    return tl::unexpected(std::move(fault));
  }
  if (is_bucket(spec.algorithm)) {
    if (!numbers.rate) {
      return tl::unexpected(std::string("there is no rate: write rate = \"100/s\""));
    }
    spec.rate = {numbers.rate->period_ns, numbers.rate->count,
                 numbers.burst.value_or(numbers.rate->count)};
  } else {
    if (!numbers.limit) return tl::unexpected(std::string("there is no limit: write limit = 1000"));
    if (!numbers.window) {
      return tl::unexpected(std::string(is_window(spec.algorithm)
                                            ? "there is no window: write window = \"1min\""
                                            : "there is no ttl: write ttl = \"30s\""));
    }
    spec.limit = *numbers.limit;
    spec.window = *numbers.window;
  }
  spec.reserve = numbers.reserve.value_or(spec.reserve);
  spec.max_wait_ns = numbers.max_wait_ns.value_or(0);
  spec.max_debt = numbers.max_debt.value_or(0);
  spec.lease = numbers.lease.value_or(spec.lease);
  if (std::string fault = engine::check_policy(spec); !fault.empty()) {
    return tl::unexpected(std::move(fault));
  }
  return spec;
}

}  // namespace pail::policy
