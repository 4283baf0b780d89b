// The audit's result, for people and programs.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/audit.hpp"

namespace pail::bench {

// A key's number as the text that a person can look for.
using KeyName = std::function<std::string(std::uint32_t)>;

[[nodiscard]] std::string audit_text(const AuditBound& bound, const AuditResult& result,
                                     const KeyName& key_name);
[[nodiscard]] nlohmann::json audit_json(const AuditBound& bound, const AuditResult& result,
                                        const KeyName& key_name);

}  // namespace pail::bench
