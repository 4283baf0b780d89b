#include "tests/support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>

namespace pail::test {

Process::Process(const std::vector<std::string>& command, Streams streams) {
  ::signal(SIGPIPE, SIG_IGN);  // a line to a program that has ended is an answer, not our end
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  std::array<int, 2> to{-1, -1};
  std::array<int, 2> from{-1, -1};
  const bool is_piped = streams == Streams::piped;
  if (is_piped && (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0)) {
    throw std::runtime_error("no pipes for " + command.front());
  }
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork for " + command.front());
  if (pid_ == 0) {
    // Nothing but system calls between fork and exec: other threads may hold any lock.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::signal(SIGPIPE, SIG_DFL);
    if (is_piped && (::dup2(to[0], STDIN_FILENO) < 0 || ::dup2(from[1], STDOUT_FILENO) < 0)) {
      ::_exit(127);
    }
    ::execv(words.front(), words.data());
    ::_exit(127);
  }
  if (!is_piped) return;
  ::close(to[0]);
  ::close(from[1]);
  input_ = to[1];
  output_ = from[0];
}

Process::~Process() {
  if (!status_) {
    signal(SIGKILL);
    wait();
  }
  if (input_ >= 0) ::close(input_);
  if (output_ >= 0) ::close(output_);
}

bool Process::write_line(const std::string& line) {
  const std::string text = line + "\n";  // shorter than a pipe's buffer: written whole
  return ::write(input_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool Process::fill() {
  pollfd watched{output_, POLLIN, 0};
  const auto patience =
      std::chrono::duration_cast<std::chrono::milliseconds>(kProcessPatience).count();
  int ready = 0;
  do ready = ::poll(&watched, 1, static_cast<int>(patience));
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) return false;
  std::array<char, 4096> room;
  const ssize_t count = ::read(output_, room.data(), room.size());
  if (count <= 0) return false;
  received_.append(room.data(), static_cast<std::size_t>(count));
  return true;
}

std::optional<std::string> Process::read_line() {
  std::size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::string Process::read_all() {
  while (fill()) {
  }
  return std::move(received_);
}

void Process::signal(int number) const {
  if (status_) return;
  ::kill(pid_, number);
  if (number != SIGSTOP) return;
  // Its threads stop one by one, and answer until they do: wait until all have.
  siginfo_t stopped{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED) < 0 && errno == EINTR) {
  }
}

int Process::wait() {
  if (status_) return *status_;
  int raw = 0;
  while (::waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
  }
  status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
  return *status_;
}

std::string program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace pail::test
