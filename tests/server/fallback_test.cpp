// Concern: paild serves where io_uring is forbidden, says why, and refuses only what was asked for
// by name. Method: paild under a seccomp filter as containers have it, and without locked memory.
#include <sys/resource.h>

#include <cerrno>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"
#include "tests/support/seccomp.hpp"

namespace pail::test {
namespace {

void lock_no_memory() {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) ::_exit(126);
}

// Starts paild, takes once, and tells the backend that it runs on.
std::string backend_that_serves(void (*prepare)(), std::string& output) {
  const std::string ready = "/tmp/pail-fallback-test." + std::to_string(::getpid()) + ".json";
  ::unlink(ready.c_str());
  Process paild({"--listen", "127.0.0.1:0", "--shards", "1", "--ready-file", ready}, prepare);
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  const std::string json = Process::contents(ready);
  ::unlink(ready.c_str());
  RawClient client(between(json, "[\"", "\"]"));
  REQUIRE(client.greet());
  REQUIRE(client.send(request_bytes(slow_take(1, "alice", 10))));
  const auto reply = client.reply();
  REQUIRE(reply);
  CHECK(reply->remaining == 9);
  paild.signal(SIGTERM);
  CHECK(paild.exit_code() == 0);
  output = paild.output();
  return between(json, "\"io\":\"", "\"");
}

// One line says which backend runs, and why.
std::string io_line(const std::string& output) {
  return between(output, "  I/O      ", "\n");
}

TEST_CASE("where io_uring is forbidden or unknown, epoll serves and paild says why") {
  std::string output;
  CHECK(backend_that_serves(deny<SYS_io_uring_setup, EPERM>, output) == "epoll");
  CHECK(io_line(output).find("epoll (no io_uring: io_uring_setup: Operation not permitted") == 0);
  CHECK(io_line(output).find("seccomp") != std::string::npos);
  CHECK(backend_that_serves(deny<SYS_io_uring_setup, ENOSYS>, output) == "epoll");
  CHECK(io_line(output).find("this kernel has no io_uring") != std::string::npos);
}

// Some filters let a ring be made and forbid its use.
TEST_CASE("where a ring can be made and not used, epoll serves") {
  std::string output;
  CHECK(backend_that_serves(deny<SYS_io_uring_enter, EPERM>, output) == "epoll");
  CHECK(io_line(output).find("Operation not permitted") != std::string::npos);
  CHECK(backend_that_serves(deny<SYS_io_uring_register, EACCES>, output) == "epoll");
  CHECK(io_line(output).find("Permission denied") != std::string::npos);
}

// Kernels before 5.12 charge rings to the limit, later ones to the memory cgroup; root is exempt.
TEST_CASE("without locked memory paild serves, and says what on") {
  std::string output;
  const std::string backend = backend_that_serves(lock_no_memory, output);
  const bool is_told = io_line(output).find("uring (this kernel allows it)") == 0 ||
                       io_line(output).find("epoll (no io_uring: ") == 0;
  CHECK(is_told);
  CHECK((backend == "uring" || backend == "epoll"));
}

TEST_CASE("what was asked for by name and cannot be had is an error that says why") {
  for (const auto prepare : {deny<SYS_io_uring_setup, EPERM>, deny<SYS_io_uring_setup, ENOSYS>,
                             deny<SYS_io_uring_enter, EPERM>}) {
    Process paild({"--listen", "127.0.0.1:0", "--io", "uring"}, prepare);
    CHECK(paild.exit_code() == 1);
    CHECK(paild.output().find("--io uring: io_uring_") != std::string::npos);
  }
}

TEST_CASE("epoll can be asked for where io_uring is to be had") {
  Process paild({"--listen", "127.0.0.1:0", "--io", "epoll"});
  REQUIRE(eventually([&] { return !io_line(paild.output()).empty(); }));
  CHECK(io_line(paild.output()) == "epoll (asked for by --io epoll)");
}

}  // namespace
}  // namespace pail::test
