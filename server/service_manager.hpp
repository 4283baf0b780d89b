// What a service manager (systemd, Type=notify) wants to be told: that we serve, that we stop, that
// we are alive. One datagram each to the socket that NOTIFY_SOCKET names; without one, nothing.
// Lines as sd_notify(3) has them; the protocol is that small, so there is no library for it here.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace pail::server {

class ServiceManager {
 public:
  // `socket`: a path, or "@name" in the abstract namespace; null, or what is neither: nobody
  // listens. `watchdog_us`, `watchdog_pid`: the texts of WATCHDOG_USEC and WATCHDOG_PID, or null.
  ServiceManager(const char* socket, const char* watchdog_us, const char* watchdog_pid);
  static ServiceManager from_environment();
  ~ServiceManager();
  ServiceManager(ServiceManager&& other) noexcept;
  ServiceManager& operator=(ServiceManager&&) = delete;

  // Within this time an alive() is due; half of it is a good interval.
  [[nodiscard]] std::optional<std::chrono::microseconds> watchdog() const noexcept {
    return watchdog_;
  }

  void ready(std::string_view status) const { send("READY=1\nSTATUS=" + std::string(status)); }
  void reloading() const;  // until the next ready()
  void stopping() const { send("STOPPING=1\nSTATUS=draining"); }
  void alive() const { send("WATCHDOG=1"); }

 private:
  void send(const std::string& lines) const;

  int socket_ = -1;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace pail::server
