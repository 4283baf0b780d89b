// Concern: what is no client of Pail at all is closed, is admitted nothing, and harms nobody.
// Method: paild as users run it, over each backend; curl, and megabytes of random bytes from
// several seeds, at the beginning of a connection and behind a good HELLO.
#include <sys/wait.h>

#include <cstdlib>

#include "tests/server/serving.hpp"

namespace pail::test {
namespace {

constexpr std::size_t kNoiseBytes = std::size_t{1} << 20;

Octets noise(std::uint64_t stream) {
  Random random(stream);
  Octets bytes(kNoiseBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

TEST_CASE("curl is closed at once, and paild goes on") {
  for (const char* io : {"uring", "epoll"}) {
    CAPTURE(io);
    Serving paild(io, 2);
    CHECK(paild.take("alice") == 9);
    const std::string command =
        "curl --silent --output /dev/null --noproxy '*' --max-time 20 "
        "http://" +
        paild.address() + "/";
    const int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) != 0);    // no HTTP is spoken here
    CHECK(WEXITSTATUS(status) != 7);    // it was let in
    CHECK(WEXITSTATUS(status) != 28);   // and did not wait for its time to run out
    CHECK(WEXITSTATUS(status) != 127);  // curl is there
    CHECK(paild.take("alice") == 8);
    CHECK(paild.end() == 0);
  }
}

TEST_CASE("a megabyte of random bytes is closed, takes nothing, and paild goes on") {
  for (const char* io : {"uring", "epoll"}) {
    CAPTURE(io);
    Serving paild(io, 2);
    std::uint32_t left = 10;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(seed);
      RawClient stranger(paild.address());
      stranger.send(noise(seed));
      CHECK(stranger.wait_for_end());

      auto impostor = paild.greeted();
      REQUIRE(impostor);
      impostor->send(noise(100 + seed));
      CHECK(impostor->wait_for_end());

      CHECK(paild.take("alice") == --left);
    }
    CHECK(paild.end() == 0);
  }
}

}  // namespace
}  // namespace pail::test
