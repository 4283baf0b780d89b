// What the sub-commands of pail-bench share: exit codes, and errors that the command line causes.
#pragma once

#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>

namespace pail::bench {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the run: no server, a wrong reply, undecided requests
inline constexpr int kExitBadArguments = 2;
inline constexpr int kExitMissed = 3;     // --slo: slower than it has to be
inline constexpr int kExitOverGrant = 4;  // the audit: more was granted than the limit allows

// Thrown while arguments are read, before anything runs; main() prints it and exits with 2.
struct BadArguments : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Set by SIGINT and SIGTERM.
extern volatile std::sig_atomic_t stop_requested;

// Each adds its options to `app` and returns what runs it after parsing; that returns an exit code.
std::function<int()> add_load_command(CLI::App& app);
std::function<int()> add_audit_command(CLI::App& app);
std::function<int()> add_client_command(CLI::App& app);
std::function<int()> add_compare_command(CLI::App& app);
std::function<int()> add_echo_command(CLI::App& app);
std::function<int()> add_engine_command(CLI::App& app);

}  // namespace pail::bench
