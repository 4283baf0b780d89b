#include "server/policy/store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "server/policy/words.hpp"

namespace pail::policy {
namespace {

using engine::Algorithm;

// Of a version's history nobody reads more.
constexpr std::size_t kMaxCauseBytes = 200;

std::string texts(const std::vector<Fault>& faults) {
  std::string text;
  for (const Fault& fault : faults) text += (text.empty() ? "" : "; ") + fault.text;
  return text;
}

Algorithm algorithm_of(const Numbers& numbers, const Definition* below) {
  const Numbers nothing;
  return layered(numbers, below != nullptr ? below->numbers : nothing)
      .algorithm.value_or(Algorithm::token_bucket);
}

std::string join(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

void apply_change(const Change& change, Definition& policy) {
  policy.numbers = layered(change.numbers, policy.numbers);
  policy.mode = change.mode.value_or(policy.mode);
  policy.percent = change.percent.value_or(policy.percent);
  if (change.scale) policy.scale = change.scale;
  for (const auto& [key, override] : change.overrides) {
    std::erase_if(policy.overrides, [&](const Override& one) { return one.key == key; });
    if (override.tier.empty() && override.numbers == Numbers{}) continue;  // cleared
    policy.overrides.push_back(override);
  }
}

}  // namespace

std::vector<Definition> layered(const std::vector<Definition>& of_file,
                                const std::vector<Definition>& of_flags) {
  std::vector<Definition> all;
  for (const Definition& policy : of_file) {
    const bool is_replaced = std::ranges::any_of(
        of_flags, [&](const Definition& flag) { return flag.name == policy.name; });
    if (!is_replaced) all.push_back(policy);
  }
  all.insert(all.end(), of_flags.begin(), of_flags.end());
  return all;
}

Store::Store(std::string file, std::vector<Definition> of_file, std::vector<Definition> of_flags,
             Apply apply, UtcClock clock, Unknown unknown, bool is_unknown_of_flag)
    : file_(std::move(file)),
      of_flags_(std::move(of_flags)),
      apply_(std::move(apply)),
      clock_(std::move(clock)),
      is_unknown_of_flag_(is_unknown_of_flag) {
  auto state = std::make_shared<State>();
  state->base = layered(of_file, of_flags_);
  state->unknown = std::move(unknown);
  const std::int64_t now_s = clock_();
  next_expiry_s_ = next_expiry(state->base, now_s);
  history_.push_back({{1, now_s, "start"}, std::move(state)});
}

std::vector<Definition> Store::effective(const State& state, std::int64_t now_s) {
  std::vector<Definition> all = state.base;
  for (const auto& [name, change] : state.changes) {
    auto policy =
        std::ranges::find_if(all, [&](const Definition& one) { return one.name == name; });
    if (policy == all.end()) {
      all.push_back({});
      policy = all.end() - 1;
      policy->name = name;
    }
    apply_change(change, *policy);
  }
  for (Definition& policy : all) {
    if (policy.scale && policy.scale->expires_s <= now_s) policy.scale.reset();
    std::erase_if(policy.overrides, [&](const Override& one) {
      return one.expires_s != 0 && one.expires_s <= now_s;
    });
  }
  return all;
}

const Definition* Store::find(const State& state, const std::string& name) const {
  const auto found =
      std::ranges::find_if(state.base, [&](const Definition& one) { return one.name == name; });
  return found == state.base.end() ? nullptr : &*found;
}

// With the mutex held.
Parsed<std::uint32_t> Store::apply(State next, std::string cause) {
  const std::int64_t now_s = clock_();
  const auto definitions = effective(next, now_s);
  auto list = to_list(definitions, now_s);
  if (!list) return tl::unexpected(texts(list.error()));
  list->unknown = to_engine(next.unknown);
  auto state = std::make_shared<const State>(std::move(next));
  if (cause.size() > kMaxCauseBytes) cause.resize(kMaxCauseBytes);
  auto version = apply_(*list);
  if (!version) return version;
  next_expiry_s_ = next_expiry(definitions, now_s);
  history_.push_back({{*version, now_s, std::move(cause)}, std::move(state)});
  if (history_.size() > kMaxHistory) history_.pop_front();
  return version;
}

Parsed<std::uint32_t> Store::reload(std::string cause) {
  const std::lock_guard lock(mutex_);
  if (file_.empty()) return tl::unexpected(std::string("there is no file: --config names one"));
  auto file = read_file(file_);
  if (!file) return tl::unexpected(file.error());
  const State& now = *history_.back().state;
  return apply({layered(file->policies, of_flags_), now.changes,
                is_unknown_of_flag_ ? now.unknown : file->unknown},
               std::move(cause));
}

Parsed<std::uint32_t> Store::set(const std::string& name, const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  State next = *history_.back().state;
  if (words.empty()) {
    return tl::unexpected(std::string("nothing is set: rate=200/s, mode=shadow, or reset"));
  }
  if (words.size() == 1 && words[0] == "reset") {
    if (next.changes.erase(name) == 0) {
      return tl::unexpected(fmt::format("policy \"{}\" has no changes to take back", name));
    }
  } else {
    Change& change = next.changes[name];
    // What kind it is may be said by any of the words, and decides what the others mean.
    for (const std::string& word : words) {
      if (!word.starts_with("algorithm=")) continue;
      const std::string fault = apply_word(word, Algorithm::token_bucket, change);
      if (!fault.empty()) return tl::unexpected(fault);
    }
    const Definition* const below = find(next, name);
    const Algorithm algorithm = algorithm_of(change.numbers, below);
    for (const std::string& word : words) {
      const std::string fault = apply_word(word, algorithm, change);
      if (!fault.empty()) return tl::unexpected(fault);
    }
    if (std::string fault = fault_in(change.numbers, algorithm); !fault.empty()) {
      return tl::unexpected(std::move(fault));
    }
    if (std::string fault = fault_in_name(name); !fault.empty()) {
      return tl::unexpected(std::move(fault));
    }
  }
  return apply(std::move(next), fmt::format("set {} {}", name, join(words)));
}

Parsed<std::uint32_t> Store::override_key(const std::string& name, const std::string& key,
                                          const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  State next = *history_.back().state;
  const auto now = effective(next, clock_());
  const auto policy =
      std::ranges::find_if(now, [&](const Definition& one) { return one.name == name; });
  if (policy == now.end()) return tl::unexpected(fmt::format("there is no policy \"{}\"", name));
  if (words.empty()) {
    return tl::unexpected(std::string("nothing is said: rate=200/s, tier=gold, or clear"));
  }
  Override override;
  override.key = key;
  if (words.size() == 1 && words[0] == "clear") {
    const bool is_there =
        std::ranges::any_of(policy->overrides, [&](const Override& one) { return one.key == key; });
    if (!is_there) {
      return tl::unexpected(fmt::format("policy \"{}\" has no override of this key", name));
    }
  } else {
    const Algorithm algorithm = policy->numbers.algorithm.value_or(Algorithm::token_bucket);
    for (const std::string& word : words) {
      const std::string fault = apply_word(word, algorithm, clock_(), override);
      if (!fault.empty()) return tl::unexpected(fault);
    }
    if (std::string fault = fault_in(override.numbers, algorithm); !fault.empty()) {
      return tl::unexpected(std::move(fault));
    }
    if (override.tier.empty() == (override.numbers == Numbers{})) {
      return tl::unexpected(
          std::string("an override is a tier, or numbers: tier=gold, rate=200/s"));
    }
  }
  next.changes[name].overrides[key] = std::move(override);
  // Keys are customers: the history says which only to who asks for the policy.
  return apply(std::move(next), fmt::format("override a key of {}: {}", name, join(words)));
}

Parsed<std::uint32_t> Store::scale(const std::string& name, const std::string& factor,
                                   const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  State next = *history_.back().state;
  const auto now = effective(next, clock_());
  if (std::ranges::none_of(now, [&](const Definition& one) { return one.name == name; })) {
    return tl::unexpected(fmt::format("there is no policy \"{}\"", name));
  }
  const auto millionths = parse_factor(factor);
  if (!millionths) return tl::unexpected(millionths.error());
  if (*millionths == 1'000'000 && words.empty()) {
    next.changes[name].scale = Scale{};
  } else {
    // A controller that dies must not leave it low for good.
    if (words.size() != 1 || !words[0].starts_with("for=")) {
      return tl::unexpected(std::string("say for how long: for=10min"));
    }
    const auto end = parse_for(words[0], clock_());
    if (!end) return tl::unexpected(end.error());
    next.changes[name].scale = Scale{*millionths, *end};
  }
  return apply(std::move(next), fmt::format("scale {} {} {}", name, factor, join(words)));
}

Parsed<std::uint32_t> Store::rollback(std::uint32_t version) {
  const std::lock_guard lock(mutex_);
  const auto past = std::ranges::find_if(
      history_, [&](const Past& one) { return one.version.number == version; });
  if (past == history_.end()) {
    return tl::unexpected(fmt::format("there is no version {} in the history: {} to {} are",
                                      version, history_.front().version.number,
                                      history_.back().version.number));
  }
  return apply(*past->state, fmt::format("rollback to {}", version));
}

bool Store::tick() {
  const std::lock_guard lock(mutex_);
  if (next_expiry_s_ == 0 || clock_() < next_expiry_s_) return false;
  return apply(*history_.back().state, "something has expired").has_value();
}

std::vector<Definition> Store::definitions() const {
  const std::lock_guard lock(mutex_);
  return effective(*history_.back().state, clock_());
}

Unknown Store::unknown() const {
  const std::lock_guard lock(mutex_);
  return history_.back().state->unknown;
}

bool Store::is_changed(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return history_.back().state->changes.contains(name);
}

std::vector<Store::Version> Store::history() const {
  const std::lock_guard lock(mutex_);
  std::vector<Version> versions;
  for (const Past& past : history_) versions.push_back(past.version);
  return versions;
}

std::uint32_t Store::version() const {
  const std::lock_guard lock(mutex_);
  return history_.back().version.number;
}

}  // namespace pail::policy
