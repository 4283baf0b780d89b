// pail-bench: measures a Pail server, and what there is to compare it with.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "bench/command.hpp"

namespace pail::bench {

volatile std::sig_atomic_t stop_requested = 0;

namespace {

void on_signal(int) {
  stop_requested = 1;
}

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;  // without SA_RESTART: a wait in the kernel ends
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int run(int argc, char** argv) {
  CLI::App app{
      "Load for a Pail server and its rivals. In a closed loop every connection sends a batch of\n"
      "takes, waits for all replies, checks them, and sends the next. In an open loop (--arrival,\n"
      "--trace) requests are due at their times, whatever the server does."};
  app.name("pail-bench");
  app.get_formatter()->column_width(34);
  const auto load = add_load_command(app);
  CLI::App* echo_app = app.add_subcommand(
      "echo", "A server that decides nothing: the ceiling for servers of these frames");
  const auto echo = add_echo_command(*echo_app);
  CLI::App* audit_app =
      app.add_subcommand("audit", "One audit over what several runs were granted (--audit-log)");
  const auto audit = add_audit_command(*audit_app);
  CLI::App* compare_app = app.add_subcommand(
      "compare", "Pail beside its ceiling, Redis and memcached, in turns on the same two CPUs");
  const auto compare = add_compare_command(*compare_app);
  CLI::App* client_app = app.add_subcommand(
      "client", "The client library as a gateway uses it: leases, deadlines, fallbacks");
  const auto client = add_client_command(*client_app);
  CLI::App* engine_app = app.add_subcommand(
      "engine", "The limiter in this process, without a server, beside a bare table");
  const auto engine = add_engine_command(*engine_app);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    catch_signals();
    if (echo_app->parsed()) return echo();
    if (audit_app->parsed()) return audit();
    if (compare_app->parsed()) return compare();
    if (client_app->parsed()) return client();
    if (engine_app->parsed()) return engine();
    return load();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "pail-bench: %s\nTry pail-bench --help.\n", error.what());
  } catch (const BadArguments& error) {
    std::fprintf(stderr, "pail-bench: %s\nTry pail-bench --help.\n", error.what());
  }
  return kExitBadArguments;
}

}  // namespace
}  // namespace pail::bench

int main(int argc, char** argv) {
  try {
    return pail::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pail-bench: %s\n", error.what());
    return pail::bench::kExitFailed;
  }
}
