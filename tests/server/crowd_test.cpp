// Concern: a crowd of bad peers costs the memory that was stated for it and nothing else; a server
// that was stopped goes on as if it had not been. Method: paild as a process of its own, whose
// memory is looked at, and thousands of connections.
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <sstream>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

using protocol::Status;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
const char* const kKinds[] = {"uring", "epoll"};

class Paild {
 public:
  Paild(const char* io, std::vector<std::string> more)
      : ready_("/tmp/pail-crowd-test." + std::to_string(::getpid()) + ".json"),
        process_(arguments(ready_, io, std::move(more))) {
    if (!eventually([&] { return ::access(ready_.c_str(), F_OK) == 0; })) FAIL("not ready");
    address_ = between(Process::contents(ready_), "[\"", "\"]");
  }
  ~Paild() { ::unlink(ready_.c_str()); }
  Paild(const Paild&) = delete;
  Paild& operator=(const Paild&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] RawClient greeted(const RawOptions& options = {}) const {
    RawClient client(address_, options);
    REQUIRE(client.greet());
    return client;
  }
  [[nodiscard]] std::size_t resident_bytes() const {
    const std::string status =
        Process::contents("/proc/" + std::to_string(process_.pid()) + "/status");
    return std::stoul(between(status, "VmRSS:", "kB")) * kKiB;
  }
  [[nodiscard]] bool is_healthy() const {
    RawClient client(address_);
    protocol::Request ping;
    ping.op = protocol::Op::ping;
    return client.greet() && client.send(request_bytes(ping)) && client.reply();
  }
  // After SIGSTOP it has stopped when this returns.
  void signal(int number) const {
    process_.signal(number);
    siginfo_t stopped{};
    if (number == SIGSTOP) ::waitid(P_PID, static_cast<id_t>(process_.pid()), &stopped, WSTOPPED);
  }

 private:
  static std::vector<std::string> arguments(const std::string& ready, const char* io,
                                            std::vector<std::string> more) {
    ::unlink(ready.c_str());
    std::vector<std::string> all{"--listen", "127.0.0.1:0",  "--shards", "1", "--io",
                                 io,         "--ready-file", ready};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string ready_;
  Process process_;
  std::string address_;
};

// As many as wanted, if the limit on descriptors allows it: both ends are counted once here and
// once in paild.
std::size_t affordable(std::size_t wanted) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::min<std::size_t>(wanted, limit.rlim_cur > 500 ? limit.rlim_cur - 400 : 100);
}

// The sanitizers keep shadow memory beside what a program uses.
constexpr bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#else
  return false;
#endif
#else
  return false;
#endif
}

TEST_CASE("peers that never read cost the reply memory and no more") {
  for (const char* io : kKinds) {
    constexpr std::size_t kReplyMemory = 18 * kMiB;
    Paild paild(io, {"--reply-memory", "18"});
    CHECK(paild.is_healthy());
    const std::size_t before = paild.resident_bytes();
    const Octets take = request_bytes(slow_take(1, "mute", 1'000'000));
    Octets takes;
    for (int i = 0; i < 300; ++i) takes.insert(takes.end(), take.begin(), take.end());
    std::vector<RawClient> mute;
    std::vector<std::size_t> sent(affordable(300), 0);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      mute.push_back(paild.greeted({.receive_buffer_bytes = 4096}));
    }
    // Until the server has stopped reading all of them.
    std::size_t pushed = 0;
    do {
      pushed = 0;
      for (std::size_t i = 0; i < mute.size(); ++i) {
        const std::size_t size = mute[i].send_some(protocol::Bytes(takes).subspan(sent[i]));
        sent[i] = (sent[i] + size) % takes.size();
        pushed += size;
      }
      CHECK(paild.is_healthy());
    } while (pushed > 0);
    const std::size_t after = paild.resident_bytes();
    MESSAGE(std::string(io), ": ", mute.size(), " peers that never read: ", (after - before) / kKiB,
            " KiB");
    constexpr std::size_t kChunks =
        std::size_t{server::kDefaultLimits.io.chunks} * server::kDefaultLimits.io.chunk_bytes;
    if (!is_sanitized()) CHECK(after - before <= kReplyMemory + kChunks + 2 * kMiB);
  }
}

TEST_CASE("thousands that say HELLO for ever cost little, and are let go") {
  for (const char* io : kKinds) {
    Paild paild(io, {"--hello-timeout", "3"});
    CHECK(paild.is_healthy());
    const std::size_t before = paild.resident_bytes();
    const Octets hello = hello_bytes();
    const std::size_t count = affordable(5'000);
    std::vector<RawClient> crowd;
    for (std::size_t i = 0; i < count; ++i) {
      crowd.emplace_back(paild.address());
      crowd.back().send(protocol::Bytes(hello).first(7));
    }
    CHECK(paild.is_healthy());
    const std::size_t after = paild.resident_bytes();
    MESSAGE(std::string(io), ": ", (after - before) / count, " bytes for each of ", count);
    if (!is_sanitized()) CHECK((after - before) / count <= 16 * kKiB);
    for (RawClient& client : crowd) CHECK(client.wait_for_end());
    CHECK(paild.is_healthy());
  }
}

// Bytes that wait in the kernel at the server's end, by /proc/net/tcp.
std::size_t waiting_bytes(const std::string& address) {
  char port[8];
  std::snprintf(port, sizeof port, ":%04X", std::stoi(address.substr(address.rfind(':') + 1)));
  std::istringstream lines(Process::contents("/proc/net/tcp"));
  std::size_t sum = 0;
  std::string number;
  std::string local;
  std::string peer;
  std::string state;
  std::string queues;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream(line) >> number >> local >> peer >> state >> queues;
    if (local.ends_with(port) && state == "01") sum += std::stoul(queues.substr(9), nullptr, 16);
  }
  return sum;
}

// It would only be older when the server comes to it.
TEST_CASE("little of a peer waits in the kernel, however much it sends") {
  for (const char* io : kKinds) {
    Paild paild(io, {});
    RawClient flooder = paild.greeted();
    const Octets take = request_bytes(slow_take(1, "waits", 10));
    Octets takes;
    for (int i = 0; i < 20'000; ++i) takes.insert(takes.end(), take.begin(), take.end());
    paild.signal(SIGSTOP);
    std::size_t sent = 0;
    REQUIRE(eventually([&] {
      sent += flooder.send_some(protocol::Bytes(takes).subspan(sent));
      return sent == takes.size() || !flooder.can_send_soon();
    }));
    const std::size_t waiting = waiting_bytes(paild.address());
    CHECK(waiting > 1024);
    CHECK(waiting <= 2 * server::kDefaultLimits.receive_buffer_bytes);
    paild.signal(SIGCONT);
    CHECK(flooder.reply());
  }
}

// What was sent to a stopped server is decided at the time when it goes on, and no budget appears.
TEST_CASE("a server that was stopped and goes on keeps the bound and all connections") {
  for (const char* io : kKinds) {
    Paild paild(io, {});
    constexpr std::uint32_t kRate = 1'000;
    constexpr std::uint32_t kBurst = 50;
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) clients.push_back(paild.greeted());
    protocol::Request take = slow_take(1, "stopped", kBurst);
    take.inline_limit = {1'000'000'000, kRate, kBurst};
    const Octets one = request_bytes(take);
    Octets some;
    for (int i = 0; i < 200; ++i) some.insert(some.end(), one.begin(), one.end());

    std::uint64_t admitted = 0;
    const auto began = SteadyClock::now();
    for (int round = 0; round < 3; ++round) {
      paild.signal(SIGSTOP);
      for (RawClient& client : clients) REQUIRE(client.send(some));
      const auto go_on = SteadyClock::now() + std::chrono::milliseconds(300);
      REQUIRE(eventually([&] { return SteadyClock::now() >= go_on; }));
      paild.signal(SIGCONT);
      for (RawClient& client : clients) {
        for (int i = 0; i < 200; ++i) {
          const auto reply = client.reply();
          REQUIRE(reply);
          if (reply->status == Status::ok) ++admitted;
        }
      }
    }
    const std::chrono::duration<double> elapsed = SteadyClock::now() - began;
    CHECK(admitted >= kBurst);
    CHECK(static_cast<double>(admitted) <= kBurst + kRate * elapsed.count());
    for (RawClient& client : clients) CHECK_FALSE(client.has_ended());
  }
}

}  // namespace
}  // namespace pail::test
