// paild as a process of its own.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace pail::test {

// paild as users run it.
class Process {
 public:
  enum class Errors : bool { with_output, nowhere };  // nowhere: the descriptor is closed

  // `prepare` runs in the new process before paild does.
  explicit Process(std::vector<std::string> arguments, void (*prepare)() = nullptr,
                   Errors errors = Errors::with_output) {
    static int count = 0;
    output_path_ =
        "/tmp/pail-life-test." + std::to_string(::getpid()) + "." + std::to_string(++count);
    const auto has = [&](std::string_view flag) {
      return std::find(arguments.begin(), arguments.end(), flag) != arguments.end();
    };
    // The default address for RESP is one for all: tests beside this one want it, too.
    if (has("--listen") && !has("--resp")) arguments.insert(arguments.end(), {"--resp", "none"});
    arguments.insert(arguments.begin(), PAILD_PATH);
    std::fflush(stdout);  // else both processes write it
    pid_ = ::fork();
    if (pid_ == 0) {
      if (prepare != nullptr) prepare();
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      static_cast<void>(::freopen(output_path_.c_str(), "w", stdout));
      errors == Errors::with_output ? ::dup2(1, 2) : ::close(2);
      ::execv(PAILD_PATH, argv.data());
      ::_exit(127);
    }
  }
  ~Process() {
    if (pid_ > 0) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::unlink(output_path_.c_str());
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void signal(int number) const { ::kill(pid_, number); }
  int exit_code() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] std::string output() const { return contents(output_path_); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  static std::string contents(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  pid_t pid_ = -1;
  std::string output_path_;
};

inline std::string between(const std::string& text, const std::string& left,
                           const std::string& right) {
  const auto begin = text.find(left);
  if (begin == std::string::npos) return "";
  const auto end = text.find(right, begin + left.size());
  return text.substr(begin + left.size(), end - begin - left.size());
}

}  // namespace pail::test
