// paild: from the command line to a server, and from a signal to its end.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>

#include "server/announce.hpp"
#include "server/config.hpp"
#include "server/log.hpp"
#include "server/server.hpp"
#include "server/service_manager.hpp"

namespace {

using namespace pail::server;

constexpr std::uint64_t kReportMs = 1000;

sigset_t awaited_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

// By stdio, which throws nothing where nobody reads: a closed error stream is no reason to abort.
int complain(const std::string& text) noexcept {
  std::fprintf(stderr, "paild: %s\n", text.c_str());
  return 1;
}

std::uint64_t now_ms() noexcept {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// A mistake in a file changes nothing of what it is about.
void reload_tokens(Server& server, Log& log, const Config& config) {
  auto tokens = read_token_file(config.token_file);
  if (!tokens) {
    return log.write({LogLevel::error, "reload_failed", "the old tokens stay"},
                     {{"reason", tokens.error()}});
  }
  const std::size_t count = tokens->size();
  server.replace_tokens(std::move(*tokens));
  log.write({LogLevel::info, "reload", "tokens reloaded"}, {{"tokens", count}});
}

void reload_policies(Server& server, Log& log) {
  const auto version = server.policies().reload("SIGHUP");
  if (!version) {
    return log.write({LogLevel::error, "reload_failed", "the old policies stay"},
                     {{"reason", version.error()}});
  }
  log.write(
      {LogLevel::info, "reload", "policies reloaded"},
      {{"version", std::size_t{*version}}, {"policies", server.policies().definitions().size()}});
}

void reload(Server& server, Log& log, const Config& config) {
  if (config.token_file.empty() && config.file.empty()) {
    log.write({LogLevel::info, "reload",
               "nothing to reload: there is no token file, and no file of "
               "policies"});
  }
  if (!config.token_file.empty()) reload_tokens(server, log, config);
  if (!config.file.empty()) reload_policies(server, log);
}

// Until a signal asks for the end; its number. Meanwhile the log is told what the shards count, and
// the service manager that they live.
int watch(Server& server, Log& log, const ServiceManager& manager, const Config& config,
          const sigset_t& signals) {
  Journal journal(log);
  const std::uint64_t pulse_ms =
      manager.watchdog() ? static_cast<std::uint64_t>(manager.watchdog()->count()) / 2000 : 0;
  const std::uint64_t interval_ms = pulse_ms == 0 ? kReportMs : std::min(pulse_ms, kReportMs);
  const timespec interval{static_cast<time_t>(interval_ms / 1000),
                          static_cast<long>(interval_ms % 1000) * 1'000'000};
  std::uint64_t next_pulse_ms = 0;
  std::uint64_t next_report_ms = 0;
  for (;;) {
    const int number = sigtimedwait(&signals, nullptr, &interval);
    const std::uint64_t now = now_ms();
    if (now >= next_report_ms || number == SIGINT || number == SIGTERM) {
      next_report_ms = now + kReportMs;
      if (server.policies().tick()) {
        log.write({LogLevel::info, "policies_changed", "an override or a scale has expired"},
                  {{"version", std::size_t{server.policies().version()}}});
      }
      journal.report(now, server.fault_totals(),
                     [&server](Fault fault) { return server.take_note(fault); });
    }
    if (pulse_ms != 0 && now >= next_pulse_ms) {
      next_pulse_ms = now + pulse_ms;
      if (server.check_pulse()) {
        manager.alive();
      } else {
        log.write({LogLevel::error, "no_pulse", "a shard does not finish its turn"});
      }
    }
    if (number == SIGHUP) {
      manager.reloading();
      reload(server, log, config);
      manager.ready("serving");
    }
    if (number == SIGINT || number == SIGTERM) return number;
  }
}

int serve(int argc, char** argv) {
  const auto config = parse_command_line(argc, argv);
  if (!config) {
    std::fputs(config.error().text.c_str(), config.error().code == 0 ? stdout : stderr);
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
  std::fputs(welcome(**server, *config).c_str(), stdout);
  std::fflush(stdout);
  log_start(log, **server, *config);
  if (!config->ready_file.empty()) {
    if (const auto written = write_ready_file(config->ready_file, **server); !written) {
      return complain(written.error());
    }
  }

  const ServiceManager manager = ServiceManager::from_environment();
  manager.ready("serving on " + (*server)->addresses().front());

  const int number = watch(**server, log, manager, *config, signals);
  manager.stopping();
  if (!config->ready_file.empty()) remove_ready_file(config->ready_file, **server);
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

}  // namespace

int main(int argc, char** argv) {
  try {
    return serve(argc, argv);
  } catch (const std::exception& error) {
    return complain(error.what());
  }
}
