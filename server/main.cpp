// paild: from the command line to a server, and from a signal to its end.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "server/announce.hpp"
#include "server/config.hpp"
#include "server/log.hpp"
#include "server/server.hpp"

namespace {

using namespace pail::server;

constexpr timespec kReportInterval{1, 0};

sigset_t awaited_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

int complain(const std::string& text) {
  fmt::print(stderr, "paild: {}\n", text);
  return 1;
}

std::uint64_t now_ms() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// A mistake in the file changes nothing.
void reload(Server& server, Log& log, const Config& config) {
  if (config.token_file.empty()) {
    return log.write({LogLevel::info, "reload", "nothing to reload: there is no token file"});
  }
  auto tokens = read_token_file(config.token_file);
  if (!tokens) {
    return log.write({LogLevel::error, "reload_failed", "the old tokens stay"},
                     {{"reason", tokens.error()}});
  }
  const std::size_t count = tokens->size();
  server.replace_tokens(std::move(*tokens));
  log.write({LogLevel::info, "reload", "tokens reloaded"}, {{"tokens", count}});
}

// Until a signal asks for the end; its number. Meanwhile the log is told what the shards count.
int watch(Server& server, Log& log, const Config& config, const sigset_t& signals) {
  Journal journal(log);
  for (;;) {
    const int number = sigtimedwait(&signals, nullptr, &kReportInterval);
    journal.report(now_ms(), server.fault_totals(),
                   [&server](Fault fault) { return server.take_note(fault); });
    if (number == SIGHUP) reload(server, log, config);
    if (number == SIGINT || number == SIGTERM) return number;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto config = parse_command_line(argc, argv);
  if (!config) {
    fmt::print(config.error().code == 0 ? stdout : stderr, "{}", config.error().text);
    return config.error().code;
  }

  // Signals are waited for, not handled: blocked here, and so in every thread that is made from
  // here on.
  const sigset_t signals = awaited_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  Log log(config->log);
  auto server = Server::start(*config);
  if (!server) return complain(server.error());
  fmt::print("{}", welcome(**server, *config));
  std::fflush(stdout);
  log_start(log, **server, *config);
  if (!config->ready_file.empty()) {
    if (const auto written = write_ready_file(config->ready_file, **server); !written) {
      return complain(written.error());
    }
  }

  const int number = watch(**server, log, *config, signals);
  log.write({LogLevel::info, "stop", "draining"},
            {{"signal", number == SIGINT ? "SIGINT" : "SIGTERM"},
             {"connections", (*server)->connections()}});
  (*server)->stop();
  if (!(*server)->wait(std::chrono::milliseconds(kHardStopMs))) {
    log.write({LogLevel::error, "stop_late", "not drained in time, leaving"},
              {{"connections", (*server)->connections()}});
    _exit(1);
  }
  log.write({LogLevel::info, "stopped", "stopped"});
  return 0;
}
