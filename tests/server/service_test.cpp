// Concern: a service manager hears that paild serves, lives, reloads and stops, and --pin pins.
// Method: paild with the test's own socket as NOTIFY_SOCKET.
#include "server/service_manager.hpp"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <set>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

// What systemd listens on; by path or, with a leading '@', in the abstract namespace.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& name)
      : name_(name), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    ::unlink(name.c_str());
    const auto size = offsetof(sockaddr_un, sun_path) + name.size() + (name[0] == '@' ? 0 : 1);
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)) == 0);
  }
  ~NotifySocket() {
    ::close(fd_);
    ::unlink(name_.c_str());
  }
  // The next datagram; empty if none comes.
  std::string next() {
    pollfd readable{fd_, POLLIN, 0};
    const auto patience = std::chrono::milliseconds(kRawPatience).count();
    if (::poll(&readable, 1, static_cast<int>(patience)) != 1) return "";
    char text[1024];
    const ssize_t size = ::recv(fd_, text, sizeof text, 0);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
  }
  std::string next_but_watchdog() {
    std::string text;
    do text = next();
    while (text == "WATCHDOG=1");
    return text;
  }

 private:
  std::string name_;
  int fd_;
};

std::string own_path(const char* what) {
  return "/tmp/pail-service-test." + std::to_string(::getpid()) + what;
}
std::string notify_name;  // for the function that runs in the new process

void set_environment() {
  ::setenv("NOTIFY_SOCKET", notify_name.c_str(), 1);
  ::setenv("WATCHDOG_USEC", "40000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
}

TEST_CASE("ready, alive, reloading, ready again, stopping") {
  for (const std::string& name : {own_path(".notify"), "@" + own_path(".notify").substr(1)}) {
    for (const char* io : {"auto", "epoll"}) {
      NotifySocket manager(name);
      notify_name = name;
      Process paild({"--listen", "127.0.0.1:0", "--shards", "2", "--io", io}, set_environment);
      CHECK(manager.next().starts_with("READY=1\nSTATUS=serving on 127.0.0.1:"));
      for (int i = 0; i < 3; ++i) CHECK(manager.next() == "WATCHDOG=1");
      paild.signal(SIGHUP);
      CHECK(manager.next_but_watchdog().starts_with("RELOADING=1\nMONOTONIC_USEC="));
      CHECK(manager.next_but_watchdog().starts_with("READY=1\n"));
      paild.signal(SIGTERM);
      CHECK(manager.next_but_watchdog().starts_with("STOPPING=1"));
      CHECK(paild.exit_code() == 0);
    }
  }
}

TEST_CASE("nobody who listens, or nonsense in the environment, is no reason to fail") {
  for (const char* name : {"", "/", "relative", "@", "/nowhere/at/all"}) {
    const server::ServiceManager manager(name, "1000", nullptr);
    manager.ready("status");
    manager.stopping();
  }
  const server::ServiceManager nobody(nullptr, "1000", nullptr);
  CHECK_FALSE(nobody.watchdog());
  const std::string path = own_path(".nobody");
  const std::string own = std::to_string(::getpid());
  const auto watchdog = [&](const char* us, const char* pid) {
    return server::ServiceManager(path.c_str(), us, pid).watchdog();
  };
  CHECK(watchdog("5000000", own.c_str()) == std::chrono::seconds(5));
  CHECK(watchdog("5000000", nullptr) == std::chrono::seconds(5));
  CHECK_FALSE(watchdog("5000000", "1"));  // meant for another process
  for (const char* us : {"0", "-1", "soon", "99999999999999999999", "5s", ""}) {
    CHECK_FALSE(watchdog(us, own.c_str()));
  }
}

// The cores of each thread of a process, in order.
std::vector<unsigned> cores_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> cores;
  if (::sched_getaffinity(thread, sizeof set, &set) != 0) return cores;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

TEST_CASE("--pin gives each shard a core of its own, of those allowed") {
  const std::string ready = own_path(".json");
  ::unlink(ready.c_str());
  Process paild({"--listen", "127.0.0.1:0", "--shards", "2", "--pin", "--ready-file", ready});
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  ::unlink(ready.c_str());
  const auto allowed = cores_of(0);
  std::multiset<unsigned> pinned;
  const std::string threads = "/proc/" + std::to_string(paild.pid()) + "/task";
  for (const auto& entry : std::filesystem::directory_iterator(threads)) {
    const pid_t thread = std::stoi(entry.path().filename().string());
    const auto cores = cores_of(thread);
    if (thread == paild.pid()) continue;
    REQUIRE(cores.size() == 1);
    pinned.insert(cores[0]);
  }
  CHECK(pinned == std::multiset<unsigned>{allowed[0], allowed[1 % allowed.size()]});
  paild.signal(SIGTERM);
  CHECK(paild.exit_code() == 0);
}

}  // namespace
}  // namespace pail::test
