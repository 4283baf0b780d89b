// What a person and a program read: the live line, the final table, the JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "bench/load_run.hpp"

namespace pail::bench {

// One line without its end: "  3.2 s   6.51 M/s   p50 482 us   p99 611 us   refused 12.3 %".
[[nodiscard]] std::string live_line(const LiveView& view);
[[nodiscard]] std::string result_table(const LoadOptions& options, const LoadResult& result);
[[nodiscard]] nlohmann::json result_json(const LoadOptions& options, const LoadResult& result);
// "1000000 keys of 16 bytes, uniform, policy api, cost 1".
[[nodiscard]] std::string workload_text(const LoadOptions& options);

// "6.51 M", "481 k": three digits.
[[nodiscard]] std::string format_count(double count);
// "482 us", "1.20 ms".
[[nodiscard]] std::string format_ns(double ns);

// To `path`, or to the standard output if that is "-". Empty: written; else why not.
[[nodiscard]] std::string write_json(const nlohmann::json& json, const std::string& path);

}  // namespace pail::bench
