#include "bench/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "bench/command.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

constexpr int kExitNotStarted = 127;

[[noreturn]] void run_child(std::vector<char*>& arguments, int log, int cpu) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (!pin_thread(cpu)) std::_Exit(kExitNotStarted);
  execvp(arguments[0], arguments.data());
  std::_Exit(kExitNotStarted);
}

}  // namespace

tl::expected<Child, std::string> Child::start(const std::vector<std::string>& command,
                                              const std::string& log, int cpu) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int log_fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) return tl::unexpected(fmt::format("{}: {}", log, std::strerror(errno)));
  const pid_t pid = fork();
  if (pid == 0) run_child(arguments, log_fd, cpu);
  ::close(log_fd);
  if (pid < 0) return tl::unexpected(fmt::format("fork: {}", std::strerror(errno)));
  return Child(pid);
}

Child::~Child() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);  // There is nothing in it that anybody would miss.
  waitpid(pid_, nullptr, 0);
}

bool Child::is_running() noexcept {
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

std::uint64_t Child::resident_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/statm", pid_));
  std::uint64_t pages = 0;
  std::uint64_t resident = 0;
  file >> pages >> resident;
  return file ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

bool is_installed(const std::string& program) {
  const char* const path = std::getenv("PATH");
  if (path == nullptr) return false;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t colon = rest.find(':');
    const std::string file = fmt::format("{}/{}", rest.substr(0, colon), program);
    if (access(file.c_str(), X_OK) == 0) return true;
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  return false;
}

WorkDirectory::WorkDirectory() : path_("/tmp/pail-bench-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error(fmt::format("{}: {}", path_, std::strerror(errno)));
  }
}

WorkDirectory::~WorkDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

tl::expected<std::uint16_t, std::string> free_port() {
  const auto listener = listen_on(*protocol::parse_address("127.0.0.1:0"), "");
  if (!listener) return tl::unexpected(listener.error());
  const auto address = address_of(*listener);
  if (!address) return tl::unexpected(address.error());
  return address->port();
}

}  // namespace pail::bench
