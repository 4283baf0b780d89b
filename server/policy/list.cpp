// From definitions to what an engine is told.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "server/policy/file.hpp"
#include "server/policy/write.hpp"

namespace pail::policy {
namespace {

bool has_expired(std::int64_t expires_s, std::int64_t now_s) {
  return expires_s != 0 && expires_s <= now_s;
}

// Less is as exact as it can be, and never more than asked.
Numbers scaled(Numbers numbers, const Scale& scale) {
  constexpr std::uint64_t kOne = 1'000'000;
  if (numbers.rate) {
    __extension__ using Wide = unsigned __int128;
    const Wide longer =
        (Wide{numbers.rate->period_ns} * kOne + scale.millionths - 1) / scale.millionths;
    numbers.burst = numbers.burst.value_or(numbers.rate->count);
    numbers.rate->period_ns =
        static_cast<std::uint64_t>(std::min(longer, Wide{protocol::kMaxPeriodNs}));
  }
  if (numbers.limit) {
    const std::uint64_t less = std::uint64_t{*numbers.limit} * scale.millionths / kOne;
    numbers.limit = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(less, 1, UINT32_MAX));
    if (numbers.reserve) {
      for (std::uint32_t& reserve : *numbers.reserve) reserve = std::min(reserve, *numbers.limit);
    }
  }
  return numbers;
}

// One list in the making, and what is wrong with it.
class ListMaker {
 public:
  explicit ListMaker(std::int64_t now_s) : now_s_(now_s) {}

  void add(const Definition& policy) {
    const Scale* scale = policy.scale ? &*policy.scale : nullptr;
    if (scale != nullptr && has_expired(scale->expires_s, now_s_)) scale = nullptr;
    const auto final_numbers = [&](const Numbers& numbers) {
      return scale != nullptr ? scaled(numbers, *scale) : numbers;
    };
    add_policy(policy.name, final_numbers(policy.numbers), policy, 0, policy.line);
    for (const Tier& tier : policy.tiers) {
      const std::string name = policy.name + "/" + tier.name;
      if (const std::string fault = fault_in_name(name); !fault.empty()) {
        add_fault(tier.line, fmt::format("tier \"{}\": its name, that of its policy included: {}",
                                         name, fault));
        continue;
      }
      add_policy(name, final_numbers(layered(tier.numbers, policy.numbers)), policy,
                 protocol::policy_id(policy.name), tier.line);
    }
    std::map<std::string_view, std::uint32_t> keys;
    for (const Override& override : policy.overrides) {
      const auto [other, is_new] = keys.try_emplace(override.key, override.line);
      if (!is_new) {
        add_fault(override.line,
                  fmt::format("override of {} in policy \"{}\": there is one in line {} already: "
                              "leave one out",
                              policy::quoted(override.key), policy.name, other->second));
      } else if (!has_expired(override.expires_s, now_s_)) {
        add_override(override, policy, final_numbers);
      }
    }
  }

  [[nodiscard]] tl::expected<PolicyList, std::vector<Fault>> finish() {
    if (list_.policies.size() > engine::kMaxPolicies) {
      add_fault(0, fmt::format("there are {} policies and tiers: {} are the most",
                               list_.policies.size(), engine::kMaxPolicies));
    }
    if (list_.overrides.size() > engine::kMaxOverrides) {
      add_fault(0, fmt::format("there are {} overrides: {} are the most", list_.overrides.size(),
                               engine::kMaxOverrides));
    }
    if (!faults_.empty()) return tl::unexpected(std::move(faults_));
    return std::move(list_);
  }

 private:
  void add_fault(std::uint32_t line, std::string text) {
    faults_.push_back({line, std::move(text)});
  }

  void add_policy(const std::string& name, const Numbers& numbers, const Definition& policy,
                  std::uint32_t identity, std::uint32_t line) {
    auto spec = to_spec(name, numbers);
    if (!spec) return add_fault(line, fmt::format("policy \"{}\": {}", name, spec.error()));
    spec->identity = identity;
    spec->enforcement = policy.mode;
    spec->percent = policy.percent;
    const auto [other, is_new] = lines_.try_emplace(spec->id, name, line);
    const auto& [other_name, other_line] = other->second;
    if (is_new) {
      list_.policies.push_back(std::move(*spec));
    } else if (other_name == name) {
      add_fault(line, fmt::format("policy \"{}\": there is one of this name in line {} already: "
                                  "rename one, or leave one out",
                                  name, other_line));
    } else {
      add_fault(line, fmt::format("policy \"{}\": its id {:#010x} is that of \"{}\" in line {}, "
                                  "too: rename one",
                                  name, spec->id, other_name, other_line));
    }
  }

  template <class Final>
  void add_override(const Override& override, const Definition& policy, const Final& final) {
    const std::string title =
        fmt::format("override of {} in policy \"{}\"", policy::quoted(override.key), policy.name);
    if (override.key.empty() || override.key.size() > protocol::kMaxKeyBytes) {
      return add_fault(override.line, title + ": a key has 1 to 1024 bytes");
    }
    Numbers numbers = override.numbers;
    if (!override.tier.empty()) {
      const auto tier = std::find_if(policy.tiers.begin(), policy.tiers.end(),
                                     [&](const Tier& one) { return one.name == override.tier; });
      if (tier == policy.tiers.end()) {
        std::vector<std::string> known;
        for (const Tier& one : policy.tiers) known.push_back(one.name);
        return add_fault(override.line,
                         fmt::format("{}: the policy has no tier \"{}\": {}", title, override.tier,
                                     known.empty() ? "it has none, write numbers instead"
                                                   : remedy(override.tier, known)));
      }
      numbers = tier->numbers;
    }
    auto spec = to_spec(policy.name, final(layered(numbers, policy.numbers)));
    if (!spec) return add_fault(override.line, fmt::format("{}: {}", title, spec.error()));
    list_.overrides.push_back({protocol::policy_id(policy.name), override.key, std::move(*spec)});
  }

  const std::int64_t now_s_;
  PolicyList list_;
  std::vector<Fault> faults_;
  std::map<std::uint32_t, std::pair<std::string, std::uint32_t>> lines_;  // by id
};

}  // namespace

tl::expected<PolicyList, std::vector<Fault>> to_list(const std::vector<Definition>& definitions,
                                                     std::int64_t now_s) {
  ListMaker maker(now_s);
  for (const Definition& policy : definitions) maker.add(policy);
  return maker.finish();
}

std::int64_t next_expiry(const std::vector<Definition>& definitions, std::int64_t now_s) {
  std::int64_t next = 0;
  const auto look_at = [&](std::int64_t expires_s) {
    if (expires_s > now_s && (next == 0 || expires_s < next)) next = expires_s;
  };
  for (const Definition& policy : definitions) {
    if (policy.scale) look_at(policy.scale->expires_s);
    for (const Override& override : policy.overrides) look_at(override.expires_s);
  }
  return next;
}

}  // namespace pail::policy
