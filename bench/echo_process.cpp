#include "bench/echo_process.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "bench/command.hpp"
#include "bench/echo.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

// The child's first and only message: "=ADDRESS" or "!ERROR".
void tell(int pipe, char kind, const std::string& text) {
  const std::string message = kind + text;
  if (write(pipe, message.data(), message.size()) < 0) std::_Exit(kExitFailed);
}

[[noreturn]] void run_child(int pipe, const std::string& congestion, int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  const auto anywhere = protocol::parse_address("127.0.0.1:0");
  const std::string error = serve_echo(*anywhere, congestion, cpu, [pipe](const std::string& text) {
    tell(pipe, '=', text);
    ::close(pipe);
  });
  if (!error.empty()) tell(pipe, '!', error);
  std::_Exit(error.empty() ? kExitOk : kExitFailed);
}

}  // namespace

std::string serve_echo(const protocol::Address& listen, const std::string& congestion, int cpu,
                       const std::function<void(const std::string&)>& on_ready) {
  if (auto pinned = pin_thread(cpu); !pinned) return pinned.error();
  EchoServer server;
  if (auto opened = server.open({listen, congestion}); !opened) return opened.error();
  on_ready(server.address().text);
  const auto served = server.run(stop_requested);
  return served ? "" : served.error();
}

tl::expected<EchoProcess, std::string> EchoProcess::start(const std::string& congestion, int cpu) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0)
    return tl::unexpected(fmt::format("pipe: {}", std::strerror(errno)));
  const pid_t pid = fork();
  if (pid < 0) return tl::unexpected(fmt::format("fork: {}", std::strerror(errno)));
  if (pid == 0) {
    ::close(pipe[0]);
    run_child(pipe[1], congestion, cpu);
  }
  ::close(pipe[1]);
  std::string message;
  std::array<char, 512> part{};
  ssize_t size = 0;
  while ((size = read(pipe[0], part.data(), part.size())) > 0) {
    message.append(part.data(), static_cast<std::size_t>(size));
  }
  ::close(pipe[0]);
  if (message.starts_with('=')) {
    if (auto address = protocol::parse_address(message.substr(1)))
      return EchoProcess(pid, *address);
  }
  waitpid(pid, nullptr, 0);
  return tl::unexpected(fmt::format("the echo server did not start{}{}",
                                    message.empty() ? "" : ": ",
                                    message.empty() ? "" : message.substr(1)));
}

EchoProcess::EchoProcess(EchoProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), address_(std::move(other.address_)) {}

EchoProcess::~EchoProcess() {
  if (pid_ < 0) return;
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

}  // namespace pail::bench
