// `pail-bench audit FILE...`: one audit over what several processes were granted.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bench/audit_report.hpp"
#include "bench/command.hpp"

namespace pail::bench {

std::function<int()> add_audit_command(CLI::App& app) {
  auto files = std::make_shared<std::vector<std::string>>();
  app.add_option("files", *files, "What --audit-log wrote: of one machine, with the same keys")
      ->required();
  return [files] {
    AuditLog all;
    for (const std::string& file : *files) {
      auto log = read_audit_log(file);
      if (!log) throw BadArguments(log.error());
      const bool is_same = log->bound.count == all.bound.count &&
                           log->bound.period_ns == all.bound.period_ns &&
                           log->bound.burst == all.bound.burst;
      if (all.bound.burst != 0 && !is_same) {
        throw BadArguments(fmt::format("{}: another limit than in the files before it", file));
      }
      const std::uint64_t slack_ns = std::max(log->bound.slack_ns, all.bound.slack_ns);
      all.bound = log->bound;
      all.bound.slack_ns = slack_ns;
      all.grants.insert(all.grants.end(), log->grants.begin(), log->grants.end());
    }
    const AuditResult result = audit(all.bound, all.grants);
    fmt::print("{}", audit_text(all.bound, result,
                                [](std::uint32_t key) { return fmt::format("number {}", key); }));
    return result.keys_over == 0 ? kExitOk : kExitOverGrant;
  };
}

}  // namespace pail::bench
