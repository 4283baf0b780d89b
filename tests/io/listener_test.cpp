// Concern: a path or port has one server at a time, and nobody takes a living one's. Method:
// several that start at once over the file of a server that was killed; and one that ends after
// another has taken its place.
#include "server/io/listener.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace pail::io {
namespace {

class Directory {
 public:
  Directory() {
    std::string name = "/tmp/pail-listener-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] protocol::Address address() const {
    return protocol::parse_address("unix:" + path_ + "/pail.sock").value();
  }

 private:
  std::string path_;
};

int connect_to(const protocol::Address& address) {
  const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int result = ::connect(client, address.get(), address.size_bytes);
  ::close(client);
  return result;
}

// What a killed server leaves behind.
void leave_file(const protocol::Address& address) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(::bind(socket, address.get(), address.size_bytes) == 0);
  ::close(socket);
}

TEST_CASE("of several that start at once on one path, one listens and can be reached") {
  constexpr int kThreads = 4;
  const Directory directory;
  const auto address = directory.address();
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    if (round % 4 != 0) leave_file(address);
    std::vector<std::optional<Listener>> listeners(kThreads);
    std::vector<std::string> errors(kThreads);
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        if (auto opened = Listener::open(address, 2, {})) {
          listeners[i].emplace(std::move(*opened));
        } else {
          errors[i] = opened.error().text;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    int open = 0;
    for (std::size_t i = 0; i < kThreads; ++i) {
      open += listeners[i] ? 1 : 0;
      if (!listeners[i]) CHECK(errors[i].find("in use") != std::string::npos);
    }
    CHECK(open == 1);
    CHECK(connect_to(address) == 0);
    listeners.clear();
    CHECK(connect_to(address) != 0);
  }
}

// As one that starts does, between finding the file and listening.
TEST_CASE("while another server starts in the directory nobody removes a file there") {
  const Directory directory;
  const auto address = directory.address();
  leave_file(address);
  const int held = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(::flock(held, LOCK_EX) == 0);
  const auto refused = Listener::open(address, 1, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text.find("cannot be locked") != std::string::npos);
  CHECK(std::filesystem::exists(address.unix_path()));
  ::close(held);
  CHECK(Listener::open(address, 1, {}));
}

TEST_CASE("who ends leaves the file of its successor alone, and takes its own") {
  const Directory directory;
  const auto address = directory.address();
  auto first = Listener::open(address, 2, {});
  REQUIRE(first);
  CHECK_FALSE(Listener::open(address, 1, {}));
  shut_down_receiving(first->descriptor(0));  // as a server that drains
  auto second = Listener::open(address, 1, {});
  REQUIRE(second);
  first->close();
  CHECK(connect_to(address) == 0);
  second->close();
  CHECK_FALSE(std::filesystem::exists(address.unix_path()));
}

// As the kernel does to one that was killed: it goes on listening for a moment.
TEST_CASE("an address in use is waited for, for a while") {
  const Directory directory;
  const auto address = directory.address();
  auto first = Listener::open(address, 1, {});
  REQUIRE(first);
  ListenOptions patient;
  patient.patience_ms = 60'000;
  std::atomic<bool> is_asked{false};
  std::thread successor([&] {
    is_asked = true;
    is_asked.notify_one();
    const auto second = Listener::open(address, 1, patient);
    CHECK(second);
    CHECK(connect_to(address) == 0);
  });
  is_asked.wait(false);
  first->close();
  successor.join();
}

TEST_CASE("what is no socket is not removed") {
  const Directory directory;
  const auto address = directory.address();
  std::filesystem::create_directory(address.unix_path());
  const auto refused = Listener::open(address, 1, {});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text.find("not a socket") != std::string::npos);
  CHECK(std::filesystem::is_directory(address.unix_path()));
}

}  // namespace
}  // namespace pail::io
