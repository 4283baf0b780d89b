// The command line of a load run, as text and as what it means.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/audit.hpp"
#include "bench/load_options.hpp"
#include "bench/slo.hpp"

namespace pail::bench {

struct LoadArguments {
  std::string server;
  std::string target = "pail";
  std::string method = "lua";
  std::string distribution = "uniform";
  std::string rate;
  std::string burst;
  std::string duration = "5s";
  std::string warmup;
  std::string ramp = "0";
  std::string arrival;
  std::string trace;
  std::string mix = "take";
  std::string token_file;
  std::string json;
  std::string csv;
  std::string hgrm;
  std::string plot;
  std::string slo;
  bool is_audited = false;
  std::string audit_log;
  std::string bound;
  std::string audit_slack = "1ms";
  int target_pin = -1;
  bool has_duration = false;
  std::optional<std::uint64_t> requests;
  std::optional<std::uint64_t> seed;
  LoadOptions options;  // those that need no conversion are read into it directly
};

// Adds the options to `app`; `arguments` has to outlive it.
void add_load_options(CLI::App& app, LoadArguments& arguments);

// What they mean. Throws BadArguments.
struct LoadPlan {
  LoadOptions options;
  std::vector<Objective> objectives;
  std::optional<AuditBound> bound;  // where the run is audited
};
[[nodiscard]] LoadPlan plan_load(const LoadArguments& arguments);

}  // namespace pail::bench
