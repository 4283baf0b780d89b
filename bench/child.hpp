// A program that we start, pin and end: the servers of a comparison. It dies with us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace pail::bench {

class Child {
 public:
  // Its outputs go to `log`. With all its threads on `cpu`, unless that is negative.
  [[nodiscard]] static tl::expected<Child, std::string> start(
      const std::vector<std::string>& command, const std::string& log, int cpu);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  ~Child();

  [[nodiscard]] bool is_running() noexcept;
  // Resident bytes, shared ones included; 0 if it is gone.
  [[nodiscard]] std::uint64_t resident_bytes() const;

 private:
  explicit Child(pid_t pid) noexcept : pid_(pid) {}

  pid_t pid_;
};

// Whether a program of this name is found by PATH.
[[nodiscard]] bool is_installed(const std::string& program);

// A directory of our own, removed with what is in it.
class WorkDirectory {
 public:
  WorkDirectory();  // throws std::runtime_error
  ~WorkDirectory();
  WorkDirectory(const WorkDirectory&) = delete;
  WorkDirectory& operator=(const WorkDirectory&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A TCP port of loopback that was free a moment ago.
[[nodiscard]] tl::expected<std::uint16_t, std::string> free_port();

// Moves this process into a network namespace of its own, where loopback is all there is and every
// socket uses `congestion`: so that servers that cannot be told do as well. Before any thread is
// started. The error says why it is not possible; then they use the system's.
[[nodiscard]] tl::expected<void, std::string> enter_own_network(const std::string& congestion);

}  // namespace pail::bench
