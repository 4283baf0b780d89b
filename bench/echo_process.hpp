// An echo server in a process of its own, for runs that measure the ceiling in one command.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "protocol/address.hpp"

namespace pail::bench {

class EchoProcess {
 public:
  // Forks, so to be called while this process has one thread. The child listens on a free port of
  // 127.0.0.1, pinned to `cpu` unless that is negative, and dies with its parent.
  [[nodiscard]] static tl::expected<EchoProcess, std::string> start(const std::string& congestion,
                                                                    int cpu);
  ~EchoProcess();
  EchoProcess(EchoProcess&& other) noexcept;
  EchoProcess& operator=(EchoProcess&&) = delete;

  [[nodiscard]] const protocol::Address& address() const noexcept { return address_; }

 private:
  EchoProcess(pid_t pid, protocol::Address address) : pid_(pid), address_(std::move(address)) {}

  pid_t pid_;
  protocol::Address address_;
};

// Serves in this process until SIGTERM or SIGINT; `on_ready` learns the address. Empty, or what
// went wrong.
[[nodiscard]] std::string serve_echo(const protocol::Address& listen, const std::string& congestion,
                                     int cpu,
                                     const std::function<void(const std::string&)>& on_ready);

}  // namespace pail::bench
