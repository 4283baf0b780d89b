#include "bench/audit_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/report.hpp"
#include "protocol/limit_text.hpp"

namespace pail::bench {
namespace {

std::string finding_text(const AuditFinding& finding, const KeyName& key_name) {
  return fmt::format(
      "key {}: {} tokens within {} (from {} to {} ns of the clock), allowed {:.1f}: "
      "ratio {:.4f}",
      key_name(finding.key), finding.granted,
      format_ns(static_cast<double>(finding.end_ns - finding.begin_ns)), finding.begin_ns,
      finding.end_ns, finding.bound, finding.ratio);
}

nlohmann::json finding_json(const AuditFinding& finding, const KeyName& key_name) {
  return {{"key", key_name(finding.key)}, {"begin_ns", finding.begin_ns},
          {"end_ns", finding.end_ns},     {"granted", finding.granted},
          {"allowed", finding.bound},     {"ratio", finding.ratio}};
}

std::string bound_text(const AuditBound& bound) {
  return fmt::format("{} burst {}", protocol::format_rate({bound.count, bound.period_ns}),
                     bound.burst);
}

}  // namespace

std::string audit_text(const AuditBound& bound, const AuditResult& result,
                       const KeyName& key_name) {
  std::string text =
      fmt::format("  {:<12} {} tokens in {} grants of {} keys against {}: {}\n", "audit",
                  result.tokens, result.grants, result.keys, bound_text(bound),
                  result.keys_over == 0 ? "never too much"
                                        : fmt::format("TOO MUCH for {} keys", result.keys_over));
  if (result.grants != 0 && result.keys_over == 0) {
    text += fmt::format("  {:<12} {}\n", "worst", finding_text(result.worst, key_name));
  }
  for (const AuditFinding& finding : result.examples) {
    text += fmt::format("  {:<12} {}\n", "too much", finding_text(finding, key_name));
  }
  return text;
}

nlohmann::json audit_json(const AuditBound& bound, const AuditResult& result,
                          const KeyName& key_name) {
  nlohmann::json examples = nlohmann::json::array();
  for (const AuditFinding& finding : result.examples) {
    examples.push_back(finding_json(finding, key_name));
  }
  nlohmann::json json = {{"bound", bound_text(bound)},    {"keys", result.keys},
                         {"grants", result.grants},       {"tokens", result.tokens},
                         {"keys_over", result.keys_over}, {"over", std::move(examples)}};
  if (result.grants != 0) json["worst"] = finding_json(result.worst, key_name);
  return json;
}

}  // namespace pail::bench
