// How endpoints are written: every accepted form gives the address it says, every wrong one an
// error that says what would be right, and the canonical text parses to itself.
#include "protocol/address.hpp"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cstring>
#include <string>

namespace pail::protocol {
namespace {

void check_tcp(std::string_view text, int family, std::uint16_t port, bool loopback,
               std::string_view canonical) {
  CAPTURE(text);
  const auto address = parse_address(text);
  REQUIRE(address.has_value());
  CHECK(address->is_tcp);
  CHECK(address->family() == family);
  CHECK(address->port() == port);
  CHECK(address->is_loopback == loopback);
  CHECK(address->text == canonical);
  CHECK(address->unix_path().empty());
  const auto again = parse_address(address->text);
  REQUIRE(again.has_value());
  CHECK(again->text == address->text);
  const auto from_kernel = address_from(address->get(), address->size_bytes);
  REQUIRE(from_kernel.has_value());
  CHECK(from_kernel->text == address->text);
  CHECK(from_kernel->is_loopback == loopback);
}

void check_error(std::string_view text, std::string_view hint) {
  CAPTURE(text);
  const auto address = parse_address(text);
  REQUIRE_FALSE(address.has_value());
  CAPTURE(address.error());
  CHECK(address.error().find(hint) != std::string::npos);
}

TEST_CASE("address: TCP over IPv4 and IPv6") {
  check_tcp("127.0.0.1:7245", AF_INET, 7245, true, "127.0.0.1:7245");
  check_tcp("127.0.0.1", AF_INET, 7245, true, "127.0.0.1:7245");
  check_tcp("127.255.0.9:1", AF_INET, 1, true, "127.255.0.9:1");
  check_tcp("localhost:0", AF_INET, 0, true, "127.0.0.1:0");
  check_tcp("localhost", AF_INET, 7245, true, "127.0.0.1:7245");
  check_tcp("0.0.0.0:65535", AF_INET, 65535, false, "0.0.0.0:65535");
  check_tcp("128.0.0.1:80", AF_INET, 80, false, "128.0.0.1:80");
  check_tcp("[::1]:7245", AF_INET6, 7245, true, "[::1]:7245");
  check_tcp("[::1]", AF_INET6, 7245, true, "[::1]:7245");
  check_tcp("[::]:5", AF_INET6, 5, false, "[::]:5");
  check_tcp("[0:0:0:0:0:0:0:1]:5", AF_INET6, 5, true, "[::1]:5");
  check_tcp("[::ffff:127.0.0.1]:5", AF_INET6, 5, true, "[::ffff:127.0.0.1]:5");
  check_tcp("[::ffff:10.0.0.1]:5", AF_INET6, 5, false, "[::ffff:10.0.0.1]:5");
}

TEST_CASE("address: the bytes that the kernel sees") {
  const auto address = parse_address("1.2.3.4:258");
  REQUIRE(address.has_value());
  CHECK(address->size_bytes == sizeof(sockaddr_in));
  sockaddr_in raw{};
  std::memcpy(&raw, &address->storage, sizeof raw);
  CHECK(raw.sin_port == htons(258));
  CHECK(raw.sin_addr.s_addr == htonl(0x01020304));
}

TEST_CASE("address: Unix sockets") {
  const auto address = parse_address("unix:/run/pail.sock");
  REQUIRE(address.has_value());
  CHECK_FALSE(address->is_tcp);
  CHECK(address->is_loopback);
  CHECK(address->family() == AF_UNIX);
  CHECK(address->unix_path() == "/run/pail.sock");
  CHECK(address->text == "unix:/run/pail.sock");
  CHECK(address->port() == 0);
  CHECK(parse_address("unix:./pail.sock").has_value());

  const std::string longest = "/" + std::string(106, 'a');  // 107 and the zero fill sun_path's 108
  REQUIRE(parse_address("unix:" + longest).has_value());
  CHECK(parse_address("unix:" + longest)->unix_path() == longest);
  check_error("unix:" + longest + "a", "107");
  check_error("unix:", "begins with /");
  check_error("unix:pail.sock", "begins with /");
  check_error("unix:@pail", "begins with /");
  check_error(std::string_view("unix:/a\0b", 9), "zero byte");

  sockaddr_un unnamed{};
  unnamed.sun_family = AF_UNIX;
  const auto peer = address_from(reinterpret_cast<const sockaddr*>(&unnamed), sizeof(sa_family_t));
  REQUIRE(peer.has_value());
  CHECK(peer->text == "unix:");
}

TEST_CASE("address: what is wrong, and what would be right") {
  check_error("", "127.0.0.1:7245");
  check_error(":7245", "127.0.0.1:7245");
  check_error("::1", "[::1]:7245");
  check_error("::1:7245", "[::1]:7245");
  check_error("[::1", "closing ]");
  check_error("[::1]7245", "after a colon");
  check_error("[127.0.0.1]:1", "IPv6");
  check_error("[]:1", "IPv6");
  check_error("[fe80::1%lo]:1", "IPv6");
  check_error("127.0.0.1:", "0 to 65535");
  check_error("127.0.0.1:65536", "0 to 65535");
  check_error("127.0.0.1:-1", "0 to 65535");
  check_error("127.0.0.1:+1", "0 to 65535");
  check_error("127.0.0.1:80x", "0 to 65535");
  check_error("127.0.0.1: 80", "0 to 65535");
  check_error("7245", "names are not looked up");
  check_error("127.0.0:1", "names are not looked up");
  check_error("*:7245", "names are not looked up");
  check_error("example.com:7245", "names are not looked up");
  check_error("tcp://127.0.0.1:7245", "IPv6");
  check_error(std::string_view("127.0.0.1\0:1", 12), "zero byte");
}

}  // namespace
}  // namespace pail::protocol
