// The policies of a running server: what its file and flags say, and above that what operators have
// changed since. Whatever changes is checked as a whole, applied at once or not at all, and
// remembered, so that one command goes back.
//
// Changes lie above the file: they survive a reload of it, until they are taken back.
//
// Any thread; calls exclude each other. None of them is on the path of a request.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "server/policy/file.hpp"

namespace pail::policy {

// What one policy is told to be, other than the file says. A policy of this name that no file has
// is made of it alone.
struct Change {
  Numbers numbers;
  std::optional<engine::Enforcement> mode;
  std::optional<std::uint8_t> percent;
  std::optional<Scale> scale;
  std::map<std::string, Override> overrides;  // by key
};

class Store {
 public:
  // Makes it so that the engine decides by the list; the version, or why not.
  using Apply = std::function<tl::expected<std::uint32_t, std::string>(const PolicyList&)>;
  using UtcClock = std::function<std::int64_t()>;  // seconds
  static constexpr std::size_t kMaxHistory = 64;

  // `file` may be empty. `of_file` and `of_flags` are in force already, as version 1.
  // A flag about unknown policies goes before what the file says about them.
  Store(std::string file, std::vector<Definition> of_file, std::vector<Definition> of_flags,
        Apply apply, UtcClock clock, Unknown unknown = {}, bool is_unknown_of_flag = false);

  struct Version {
    std::uint32_t number = 0;
    std::int64_t since_s = 0;
    std::string cause;
  };

  // What is wrong changes nothing. All return the version that is in force then.

  // Reads the file again. `cause` is for the history.
  [[nodiscard]] Parsed<std::uint32_t> reload(std::string cause);
  // "rate=200/s", "burst=400", "mode=shadow", "percent=10", ...: of a policy that there is, or a
  // new one. "reset" alone: what the file says.
  [[nodiscard]] Parsed<std::uint32_t> set(const std::string& name,
                                          const std::vector<std::string>& words);
  // The same words but mode and percent, or "tier=gold"; and "for=1h". "clear" alone: no override.
  [[nodiscard]] Parsed<std::uint32_t> override_key(const std::string& name, const std::string& key,
                                                   const std::vector<std::string>& words);
  // "0.5" and "for=10min"; "1": as it was.
  [[nodiscard]] Parsed<std::uint32_t> scale(const std::string& name, const std::string& factor,
                                            const std::vector<std::string>& words);
  // File and changes as they were then; a new version.
  [[nodiscard]] Parsed<std::uint32_t> rollback(std::uint32_t version);
  // Once a second or so: what has expired goes. True: something has.
  bool tick();

  // Copies, as they are in force.
  [[nodiscard]] std::vector<Definition> definitions() const;
  [[nodiscard]] Unknown unknown() const;
  [[nodiscard]] bool is_changed(const std::string& name) const;  // by an operator
  [[nodiscard]] std::vector<Version> history() const;            // the newest last
  [[nodiscard]] std::uint32_t version() const;

 private:
  struct State {
    std::vector<Definition> base;
    std::map<std::string, Change> changes;
    Unknown unknown = {};
  };
  struct Past {
    Version version;
    std::shared_ptr<const State> state;
  };

  [[nodiscard]] static std::vector<Definition> effective(const State& state, std::int64_t now_s);
  [[nodiscard]] Parsed<std::uint32_t> apply(State next, std::string cause);
  [[nodiscard]] const Definition* find(const State& state, const std::string& name) const;

  const std::string file_;
  const std::vector<Definition> of_flags_;
  const Apply apply_;
  const UtcClock clock_;
  const bool is_unknown_of_flag_;
  mutable std::mutex mutex_;
  std::deque<Past> history_;  // under the mutex, all of it; the last is in force
  std::int64_t next_expiry_s_ = 0;
};

// Policies of flags go before those of the file that have the same name.
[[nodiscard]] std::vector<Definition> layered(const std::vector<Definition>& of_file,
                                              const std::vector<Definition>& of_flags);

}  // namespace pail::policy
