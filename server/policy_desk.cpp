#include "server/policy_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>

#include "server/policy/write.hpp"

namespace pail::server {
namespace {

using policy::Definition;
using policy::name;
using policy::Parsed;
using Words = std::vector<std::string>;

constexpr const char* kActions =
    "list, stats, show NAME, set NAME WORD..., override NAME KEY WORD..., scale NAME FACTOR "
    "for=DURATION, "
    "reload, history, rollback VERSION, export, explain NAME KEY";

Words split(std::string_view words) {
  Words all;
  for (;;) {
    const std::size_t end = words.find('\0');
    all.emplace_back(words.substr(0, end));
    if (end == std::string_view::npos) return all;
    words.remove_prefix(end + 1);
  }
}

Words from(const Words& words, std::size_t first) {
  return {words.begin() + static_cast<std::ptrdiff_t>(std::min(first, words.size())), words.end()};
}

Parsed<std::string> done(const Parsed<std::uint32_t>& version) {
  if (!version) return tl::unexpected(version.error());
  return fmt::format("version {} is in force\n", *version);
}

std::string limit_of(const Definition& policy) {
  const policy::Numbers& numbers = policy.numbers;
  if (numbers.rate) {
    return fmt::format("{}, burst {}", protocol::format_rate(*numbers.rate),
                       numbers.burst.value_or(numbers.rate->count));
  }
  const std::string window = numbers.window ? policy::format_window(*numbers.window) : "";
  const bool is_permits = numbers.algorithm == engine::Algorithm::concurrency;
  return fmt::format("{} {} {}", numbers.limit.value_or(0), is_permits ? "at once, ttl" : "a",
                     window);
}

std::string remarks_of(const Definition& policy, bool is_changed) {
  std::string text;
  if (policy.mode != engine::Enforcement::enforce) text += fmt::format(" {}", name(policy.mode));
  if (policy.percent != 100) text += fmt::format(" {}%", policy.percent);
  if (policy.scale) text += fmt::format(" scaled by {}", policy.scale->millionths / 1e6);
  if (!policy.tiers.empty()) text += fmt::format(" tiers: {}", policy.tiers.size());
  if (!policy.overrides.empty()) text += fmt::format(" overrides: {}", policy.overrides.size());
  if (is_changed) text += " changed";
  return text;
}

// Lines of `text`, from the one behind `skip` on, as many as the page holds.
void fill(const std::string& text, std::uint32_t skip, protocol::Buffer page,
          frontend::PolicyDesk::Answer& answer) {
  std::string_view rest = text;
  for (std::uint32_t line = 0; !rest.empty(); ++line) {
    const std::string_view one = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(one.size());
    if (line < skip) continue;
    // A line that no page holds is cut: a key of 1024 bytes, escaped, fits.
    const std::size_t size = std::min(one.size(), page.size());
    if (answer.remaining != 0 || page.size() - answer.bytes < size) {
      ++answer.remaining;
      continue;
    }
    std::memcpy(page.data() + answer.bytes, one.data(), size);
    answer.bytes += size;
    ++answer.lines;
  }
}

}  // namespace

frontend::PolicyDesk::Answer StoreDesk::ask(std::string_view words, std::uint32_t skip,
                                            protocol::Buffer page) noexcept {
  Answer result;
  Parsed<std::string> text = tl::unexpected(std::string("not enough memory"));
  try {
    text = answer(split(words));
    result.version = store_.version();
  } catch (const std::exception&) {
    text = tl::unexpected(std::string("not enough memory"));
  }
  result.is_done = text.has_value();
  if (text) {
    fill(*text, skip, page, result);
  } else {
    result.bytes = std::min({text.error().size(), page.size(), protocol::kMaxErrorTextBytes});
    std::memcpy(page.data(), text.error().data(), result.bytes);
  }
  return result;
}

Parsed<std::string> StoreDesk::answer(const Words& words) {
  const std::string& action = words[0];
  const std::size_t count = words.size();
  if (action == "list" && count == 1) return list();
  if (action == "stats" && count == 1) return stats();
  if (action == "history" && count == 1) return history();
  if (action == "export" && count == 1) {
    return policy::write_unknown(store_.unknown()) + policy::write_policies(store_.definitions());
  }
  if (action == "reload" && count == 1) return done(store_.reload("reload"));
  if (action == "show" && count == 2) {
    return find(words[1]).map(
        [](const Definition& policy) { return policy::write_policies({policy}); });
  }
  if (action == "explain" && count == 3) return explain(words[1], words[2]);
  if (action == "set" && count >= 2) return done(store_.set(words[1], from(words, 2)));
  if (action == "override" && count >= 3) {
    return done(store_.override_key(words[1], words[2], from(words, 3)));
  }
  if (action == "scale" && count >= 3) {
    return done(store_.scale(words[1], words[2], from(words, 3)));
  }
  if (action == "rollback" && count == 2) {
    std::uint32_t version = 0;
    const char* const end = words[1].data() + words[1].size();
    const auto [stop, error] = std::from_chars(words[1].data(), end, version);
    if (error == std::errc{} && stop == end) return done(store_.rollback(version));
    return tl::unexpected(fmt::format("\"{}\" is no version: history lists them", words[1]));
  }
  return tl::unexpected(fmt::format("it is one of: {}", kActions));
}

Parsed<Definition> StoreDesk::find(const std::string& name) const {
  std::vector<std::string> known;
  for (Definition& policy : store_.definitions()) {
    if (policy.name == name) return std::move(policy);
    known.push_back(policy.name);
  }
  return tl::unexpected(
      fmt::format("there is no policy \"{}\": {}", name,
                  known.empty() ? "there are none" : policy::remedy(name, known)));
}

std::string StoreDesk::list() const {
  std::string text;
  for (const Definition& policy : store_.definitions()) {
    text += fmt::format("{:<24} {:<14} {}{}\n", policy.name,
                        name(policy.numbers.algorithm.value_or(engine::Algorithm::token_bucket)),
                        limit_of(policy), remarks_of(policy, store_.is_changed(policy.name)));
  }
  return text;
}

// A head, and a line each: columns with blanks between them, which no name has.
std::string StoreDesk::stats() const {
  std::string text = fmt::format(
      "{:<24} {:>12} {:>12} {:>8} {:>8} {:>8} {:>12} {:>10} {:>14} {:>9}\n", "policy", "admitted",
      "denied", "shed", "never", "expired", "shadow", "table_full", "tokens", "overrides");
  const auto add = [&](const std::string& name, std::size_t overrides) {
    const engine::PolicyCounts of = engine_ != nullptr
                                        ? engine_->policy_counts(protocol::policy_id(name))
                                        : engine::PolicyCounts{};
    text += fmt::format("{:<24} {:>12} {:>12} {:>8} {:>8} {:>8} {:>12} {:>10} {:>14} {:>9}\n", name,
                        of.admitted, of.denied, of.shed, of.never, of.expired, of.shadow,
                        of.table_full, of.tokens, overrides);
  };
  for (const Definition& policy : store_.definitions()) {
    add(policy.name, policy.overrides.size());
    for (const policy::Tier& tier : policy.tiers) add(policy.name + "/" + tier.name, 0);
  }
  return text;
}

std::string StoreDesk::history() const {
  std::string text;
  for (const auto& version : store_.history()) {
    text += fmt::format("{:>6} {} {}\n", version.number, policy::format_time(version.since_s),
                        version.cause);
  }
  return text;
}

Parsed<std::string> StoreDesk::explain(const std::string& of, const std::string& key) const {
  const auto policy = find(of);
  if (!policy) return tl::unexpected(policy.error());
  std::string text =
      fmt::format("policy {} of version {}, {}\n{}: {}{}\n", of, store_.version(),
                  store_.is_changed(of) ? "changed by an operator" : "as its file or flag says",
                  name(policy->numbers.algorithm.value_or(engine::Algorithm::token_bucket)),
                  limit_of(*policy), remarks_of(*policy, false));
  const auto override = std::ranges::find_if(
      policy->overrides, [&](const policy::Override& one) { return one.key == key; });
  if (override == policy->overrides.end()) return text + "this key has no override\n";
  Definition own = *policy;
  own.numbers = policy::layered(override->numbers, policy->numbers);
  return text + fmt::format("this key has an override: {}{}\n",
                            override->tier.empty() ? limit_of(own) : "tier " + override->tier,
                            override->expires_s != 0
                                ? " until " + policy::format_time(override->expires_s)
                                : "");
}

}  // namespace pail::server
