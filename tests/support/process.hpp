// Another program, with its standard input and output in our hands. It does not outlive us.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace pail::test {

inline constexpr std::chrono::seconds kProcessPatience{30};

class Process {
 public:
  enum class Streams : bool { piped, inherited };

  // Throws std::runtime_error if it cannot be started. Its standard error is ours.
  explicit Process(const std::vector<std::string>& command, Streams streams = Streams::piped);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills it if it still runs

  // False: it reads no more.
  bool write_line(const std::string& line);
  // Nothing: its output has ended, or nothing came for kProcessPatience.
  std::optional<std::string> read_line();
  std::string read_all();

  // After SIGSTOP it has stopped when this returns.
  void signal(int number) const;
  // Its exit status; 128 + n if signal n ended it, as a shell says it. Waits for the end.
  int wait();
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  bool fill();

  pid_t pid_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string received_;  // of its output, not yet returned
  std::optional<int> status_;
};

// The directory of the running program: the other programs of the build lie beside it.
[[nodiscard]] std::string program_directory();

}  // namespace pail::test
