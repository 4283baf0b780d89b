// The policy file: TOML, read whole or not at all.
//
//   unknown_policy = "refuse"   # or "admit", "default:NAME"
//
//   [server]                    # what the flags of paild say, with _ for -; flags go before it
//   listen = ["127.0.0.1:7245"]
//   memory = "4GiB"
//
//   [defaults]                  # of every policy below that does not say otherwise
//   max_debt = 100
//
//   [[policy]]
//   name = "api"
//   rate = "100/s"
//   burst = 200
//
//   [[policy.tier]]             # asked for as "api/gold"
//   name = "gold"
//   rate = "1000/s"
//
// docs/operations.md has all keys. Every mistake is named with its line, what is wrong, and what
// would be right; a key that is not known is a mistake.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "server/policy/numbers.hpp"

namespace pail::policy {

inline constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;

struct Fault {
  std::uint32_t line = 0;  // 0: of the file as a whole
  std::string text;
};

// One a line, as "FILE:LINE: text"; the first 20, and how many more there are.
[[nodiscard]] std::string format(const std::string& file, const std::vector<Fault>& faults);

// For a word that is not known: which one was meant, or which there are.
[[nodiscard]] std::string remedy(std::string_view word, const std::vector<std::string>& known);

// A set of numbers for some keys of a policy, under the name POLICY/TIER. Keys of all tiers of a
// policy are the same keys: who moves to another tier keeps what it has used.
struct Tier {
  std::string name;
  Numbers numbers;
  std::uint32_t line = 0;
};

// Of one key: a tier's numbers, or numbers of its own above those of the policy.
struct Override {
  std::string key;
  std::string tier;  // empty: none
  Numbers numbers;
  std::int64_t expires_s = 0;  // UTC; 0: never
  std::uint32_t line = 0;
};

// A rate for a while, times so many millionths: of the policy, its tiers and its overrides.
struct Scale {
  std::uint32_t millionths = 1'000'000;
  std::int64_t expires_s = 0;  // UTC
};

struct Definition {
  std::string name;
  Numbers numbers;  // the defaults included
  engine::Enforcement mode = engine::Enforcement::enforce;
  std::uint8_t percent = 100;
  std::optional<Scale> scale;
  std::vector<Tier> tiers;
  std::vector<Override> overrides;
  std::uint32_t line = 0;
};

// For an engine.
struct PolicyList {
  std::vector<engine::PolicySpec> policies;
  std::vector<engine::OverrideSpec> overrides;
  engine::UnknownPolicy unknown;
};

// A flag of paild, as text.
struct Setting {
  std::string name;  // "max_connections"
  std::vector<std::string> values;
  std::uint32_t line = 0;
};

struct File {
  std::vector<Setting> settings;
  std::vector<Definition> policies;
  Unknown unknown;
};

[[nodiscard]] tl::expected<File, std::vector<Fault>> parse_file(std::string_view text);
// The same; the error is formatted.
[[nodiscard]] Parsed<File> read_file(const std::string& path);

// What an engine is told at this moment (UTC in seconds, since when some overrides have expired):
// policies, tiers as policies of the names POLICY/TIER, overrides. Faults have the lines of the
// definitions.
[[nodiscard]] tl::expected<PolicyList, std::vector<Fault>> to_list(
    const std::vector<Definition>& definitions, std::int64_t now_s);

// When the next thing expires, after `now_s`; 0: nothing does.
[[nodiscard]] std::int64_t next_expiry(const std::vector<Definition>& definitions,
                                       std::int64_t now_s);

}  // namespace pail::policy
