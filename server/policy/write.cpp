#include "server/policy/write.hpp"

#include <fmt/format.h>

namespace pail::policy {
namespace {

using engine::Algorithm;

std::string write_reserve(const std::array<std::uint32_t, engine::kPriorities>& reserve) {
  std::size_t size = reserve.size();
  while (size > 0 && reserve[size - 1] == 0) --size;
  if (size == 0) return "reserve = 0\n";
  return fmt::format("reserve = [{}]\n", fmt::join(reserve.begin(), reserve.begin() + size, ", "));
}

std::string write_window(const engine::WindowRule& window, Algorithm algorithm) {
  if (algorithm == Algorithm::concurrency) {
    return fmt::format("ttl = {}\n", quoted(format_window(window)));
  }
  std::string text = fmt::format("window = {}\n", quoted(format_window(window)));
  if (window.seconds == 0 && window.anchor_day != 1) {
    text += fmt::format("anchor = {}\n", window.anchor_day);
  }
  return text;
}

std::string write_numbers(const Numbers& numbers, Algorithm algorithm) {
  std::string text;
  if (numbers.rate) {
    text += fmt::format("rate = {}\n", quoted(protocol::format_rate(*numbers.rate)));
    text += fmt::format("burst = {}\n", numbers.burst.value_or(numbers.rate->count));
  } else if (numbers.burst) {
    text += fmt::format("burst = {}\n", *numbers.burst);
  }
  if (numbers.limit) text += fmt::format("limit = {}\n", *numbers.limit);
  if (numbers.window) text += write_window(*numbers.window, algorithm);
  if (numbers.reserve) text += write_reserve(*numbers.reserve);
  if (numbers.max_wait_ns && *numbers.max_wait_ns != 0) {
    text +=
        fmt::format("max_wait = {}\n", quoted(protocol::format_duration_ns(*numbers.max_wait_ns)));
  }
  if (numbers.lease && numbers.lease->ttl_ns != 0) {
    text += fmt::format("lease = {}\n", quoted(format_lease(*numbers.lease)));
  }
  if (numbers.max_debt) text += fmt::format("max_debt = {}\n", *numbers.max_debt);
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (code < 0x20 || code == 0x7F) {
      result += fmt::format("\\u{:04X}", code);
    } else {
      result += c;
    }
  }
  return result + '"';
}

Numbers numbers_of(const engine::PolicySpec& spec) {
  Numbers numbers;
  numbers.algorithm = spec.algorithm;
  if (is_bucket(spec.algorithm)) {
    numbers.rate = {spec.rate.count, spec.rate.period_ns};
    numbers.burst = spec.rate.burst;
  } else {
    numbers.limit = spec.limit;
    numbers.window = spec.window;
  }
  if (spec.reserve != decltype(spec.reserve){}) numbers.reserve = spec.reserve;
  if (spec.max_wait_ns != 0) numbers.max_wait_ns = spec.max_wait_ns;
  if (spec.lease.ttl_ns != 0) numbers.lease = spec.lease;
  if (spec.max_debt != 0) numbers.max_debt = spec.max_debt;
  return numbers;
}

Definition definition_of(const engine::PolicySpec& spec) {
  Definition policy;
  policy.name = spec.name;
  policy.numbers = numbers_of(spec);
  policy.mode = spec.enforcement;
  policy.percent = spec.percent;
  return policy;
}

std::string write_unknown(const Unknown& unknown) {
  return unknown.rule == engine::UnknownPolicy::Rule::refuse
             ? ""
             : fmt::format("unknown_policy = {}\n\n", quoted(format_unknown(unknown)));
}

std::string write_policies(const std::vector<Definition>& definitions) {
  std::string text;
  for (const Definition& policy : definitions) {
    const Algorithm algorithm = policy.numbers.algorithm.value_or(Algorithm::token_bucket);
    text += fmt::format("{}[[policy]]\nname = {}\nalgorithm = {}\n", text.empty() ? "" : "\n",
                        quoted(policy.name), quoted(name(algorithm)));
    text += write_numbers(policy.numbers, algorithm);
    if (policy.mode != engine::Enforcement::enforce) {
      text += fmt::format("mode = {}\n", quoted(name(policy.mode)));
    }
    if (policy.percent != 100) text += fmt::format("percent = {}\n", policy.percent);
    if (policy.scale) {
      text += fmt::format("# scaled by {} until {}\n", policy.scale->millionths / 1e6,
                          format_time(policy.scale->expires_s));
    }
    for (const Tier& tier : policy.tiers) {
      text += fmt::format("\n[[policy.tier]]\nname = {}\n", quoted(tier.name));
      text += write_numbers(tier.numbers, algorithm);
    }
    for (const Override& override : policy.overrides) {
      text += fmt::format("\n[[policy.override]]\nkey = {}\n", quoted(override.key));
      if (!override.tier.empty()) text += fmt::format("tier = {}\n", quoted(override.tier));
      text += write_numbers(override.numbers, algorithm);
      if (override.expires_s != 0) {
        text += fmt::format("expires = {}\n", format_time(override.expires_s));
      }
    }
  }
  return text;
}

}  // namespace pail::policy
