// A real `paild` beside the running program, on a free port of loopback, ready when constructed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.hpp"

namespace pail::test {

class PaildProcess {
 public:
  // Throws std::runtime_error if it does not get ready.
  explicit PaildProcess(const std::vector<std::string>& more_arguments = {});
  PaildProcess(const PaildProcess&) = delete;
  PaildProcess& operator=(const PaildProcess&) = delete;
  ~PaildProcess();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] const std::string& io() const noexcept { return io_; }  // "uring" or "epoll"
  [[nodiscard]] Process& process() noexcept { return *process_; }

 private:
  std::string directory_;  // of our own, for the ready file
  std::unique_ptr<Process> process_;
  std::string address_;
  std::string io_;
};

}  // namespace pail::test
