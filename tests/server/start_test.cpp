// Concern: a start that fails says why and ends with a status, whatever it fails for, and destroys
// nothing. Method: paild under limits and filters, with odd files, without an error stream.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"
#include "tests/support/seccomp.hpp"

namespace pail::test {
namespace {

// The sanitizers reserve terabytes of addresses.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanLimitMemory = false;
#else
constexpr bool kCanLimitMemory = true;
#endif

template <rlim_t kMiB>
void limit_memory() {
  const rlimit limit{kMiB << 20, kMiB << 20};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(126);
}

// Where memory ends depends on how the threads of the shards run: each limit, and each time, it is
// another allocation that fails, and none may end the process otherwise.
TEST_CASE("without memory for a shard paild says so") {
  if (!kCanLimitMemory) return;
  constexpr std::array kLimits{limit_memory<256>, limit_memory<512>, limit_memory<768>,
                               limit_memory<1024>};
  for (int round = 0; round < 4; ++round) {
    for (const auto limit : kLimits) {
      Process shards({"--listen", "127.0.0.1:0", "--memory", "16MiB", "--shards", "16"}, limit);
      CHECK(shards.exit_code() == 1);
      const std::string output = shards.output();
      // A thread needs memory too, and the kernel says of it what it says of too many threads.
      CHECK_MESSAGE((output.find("memory") != std::string::npos ||
                     output.find("cannot start the thread") != std::string::npos),
                    output);
    }
  }
}

TEST_CASE("where no thread can be made paild says so") {
  Process paild({"--listen", "127.0.0.1:0", "--shards", "2"}, deny<SYS_clone3, EAGAIN>);
  CHECK(paild.exit_code() == 1);
  CHECK(paild.output().find("cannot start the thread of shard 0") != std::string::npos);
}

TEST_CASE("nobody who reads errors is no reason to abort") {
  Process failing({"--listen", "127.0.0.1:0", "--io", "uring"}, deny<SYS_io_uring_setup, EPERM>,
                  Process::Errors::nowhere);
  CHECK(failing.exit_code() == 1);
  Process wrong({"--listen", "nonsense"}, nullptr, Process::Errors::nowhere);
  CHECK(wrong.exit_code() == 2);
  Process serving({"--listen", "127.0.0.1:0"}, nullptr, Process::Errors::nowhere);
  REQUIRE(eventually([&] { return serving.output().find("serves") != std::string::npos; }));
  RawClient stranger(between(serving.output(), "  native   ", "\n"));
  REQUIRE(stranger.send(protocol::as_body("GET / HTTP/1.1\r\n")));  // is worth a line in the log
  CHECK(stranger.wait_for_end());
  serving.signal(SIGTERM);
  CHECK(serving.exit_code() == 0);
}

TEST_CASE("--ready-file replaces no file that is not one") {
  const std::string pipe = "/tmp/pail-start-test." + std::to_string(::getpid()) + ".fifo";
  ::unlink(pipe.c_str());
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  Process paild({"--listen", "127.0.0.1:0", "--ready-file", pipe});
  CHECK(paild.exit_code() == 1);
  CHECK(paild.output().find("is no regular file") != std::string::npos);
  struct stat status {};
  CHECK(::stat(pipe.c_str(), &status) == 0);
  CHECK(S_ISFIFO(status.st_mode));
  ::unlink(pipe.c_str());
}

// Each would be read for ever, or waited for.
TEST_CASE("a token file that is no file is refused at once") {
  const std::string pipe = "/tmp/pail-start-test." + std::to_string(::getpid()) + ".tokens";
  ::unlink(pipe.c_str());
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/dev/null")}) {
    Process paild({"--listen", "127.0.0.1:0", "--token-file", path});
    CHECK(paild.exit_code() == 2);
    CHECK(paild.output().find(path + ": is not a regular file") != std::string::npos);
  }
  ::unlink(pipe.c_str());
}

}  // namespace
}  // namespace pail::test
