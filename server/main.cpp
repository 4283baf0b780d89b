// paild: from the command line to a server, and from a signal to its end.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>

#include "server/announce.hpp"
#include "server/config.hpp"
#include "server/server.hpp"

namespace {

using namespace pail::server;

sigset_t stop_signals() noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

int complain(const std::string& text) {
  fmt::print(stderr, "paild: {}\n", text);
  return 1;
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
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  auto server = Server::start(*config);
  if (!server) return complain(server.error());
  fmt::print("{}", welcome(**server, *config));
  std::fflush(stdout);
  if (!config->ready_file.empty()) {
    if (const auto written = write_ready_file(config->ready_file, **server); !written) {
      return complain(written.error());
    }
  }

  int signal_number = 0;
  sigwait(&signals, &signal_number);
  fmt::print(stderr, "paild: {}, draining\n",
             signal_number == SIGINT ? "interrupted" : "terminated");
  (*server)->stop();
  if (!(*server)->wait(std::chrono::milliseconds(kHardStopMs))) {
    fmt::print(stderr, "paild: not drained in time, leaving\n");
    _exit(1);
  }
  return 0;
}
