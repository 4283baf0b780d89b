// Concern: paild serves where io_uring is forbidden, says why, and refuses only what was asked for
// by name. Method: paild under a seccomp filter as containers have it, and without locked memory.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

// Makes io_uring_setup fail with that errno, as container runtimes do.
template <int kErrno>
void deny_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | kErrno),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ::_exit(126);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) ::_exit(126);
}

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

TEST_CASE("where io_uring is forbidden or unknown, epoll serves and paild says why") {
  std::string output;
  CHECK(backend_that_serves(deny_uring<EPERM>, output) == "epoll");
  CHECK(output.find("Operation not permitted") != std::string::npos);
  CHECK(output.find("seccomp") != std::string::npos);
  CHECK(backend_that_serves(deny_uring<ENOSYS>, output) == "epoll");
  CHECK(output.find("this kernel has no io_uring") != std::string::npos);
}

TEST_CASE("without locked memory paild serves") {
  std::string output;
  const std::string backend = backend_that_serves(lock_no_memory, output);
  CHECK((backend == "uring" || backend == "epoll"));
}

TEST_CASE("what was asked for by name and cannot be had is an error") {
  Process paild({"--listen", "127.0.0.1:0", "--io", "uring"}, deny_uring<EPERM>);
  CHECK(paild.exit_code() == 1);
  CHECK(paild.output().find("--io uring") != std::string::npos);
}

}  // namespace
}  // namespace pail::test
