#include "server/service_manager.hpp"

#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace pail::server {
namespace {

std::optional<std::uint64_t> number_of(const char* text) {
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text, end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

ServiceManager::ServiceManager(const char* socket, const char* watchdog_us,
                               const char* watchdog_pid) {
  const std::string_view path = socket == nullptr ? "" : socket;
  const bool is_usable = path.size() > 1 && path.size() < sizeof address_.sun_path &&
                         (path[0] == '/' || path[0] == '@');
  if (!is_usable) return;
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, path.data(), path.size());
  if (path[0] == '@') address_.sun_path[0] = '\0';
  // A path is counted with its final zero, an abstract name without one.
  address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                          (path[0] == '/' ? 1 : 0));
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  const auto interval_us = number_of(watchdog_us);
  const auto pid = number_of(watchdog_pid);
  const bool is_for_us = !pid || *pid == static_cast<std::uint64_t>(::getpid());
  constexpr std::uint64_t kMostUs = std::uint64_t{1} << 40;
  if (interval_us && *interval_us > 0 && *interval_us < kMostUs && is_for_us) {
    watchdog_ = std::chrono::microseconds(*interval_us);
  }
}

ServiceManager ServiceManager::from_environment() {
  return ServiceManager(std::getenv("NOTIFY_SOCKET"), std::getenv("WATCHDOG_USEC"),
                        std::getenv("WATCHDOG_PID"));
}

ServiceManager::ServiceManager(ServiceManager&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      address_(other.address_),
      address_bytes_(other.address_bytes_),
      watchdog_(other.watchdog_) {}

ServiceManager::~ServiceManager() {
  if (socket_ >= 0) ::close(socket_);
}

void ServiceManager::reloading() const {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const auto us = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 +
                  static_cast<std::uint64_t>(now.tv_nsec) / 1000;
  send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us));
}

// A manager that does not listen is not worth failing for.
void ServiceManager::send(const std::string& lines) const {
  if (socket_ < 0) return;
  static_cast<void>(::sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(&address_), address_bytes_));
}

}  // namespace pail::server
