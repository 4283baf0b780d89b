// Concern: different subjects never share a key, one subject never has many, and nobody can say
// that he is another. Method: known answers, and every way to split a few bytes.
#include <pail/key.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

using pail::ErrorCode;
using pail::key::of_address;
using pail::key::TrustedProxies;

namespace {

TrustedProxies trusting(std::initializer_list<std::string_view> networks) {
  auto proxies = TrustedProxies::make(networks);
  REQUIRE(proxies.has_value());
  return *proxies;
}

}  // namespace

TEST_CASE("parts are told apart, whatever is in them") {
  CHECK(pail::key::composed({"a", "b_c"}) != pail::key::composed({"a_b", "c"}));
  CHECK(pail::key::composed({"tenant", "endpoint"}) == "6:tenant8:endpoint");
  std::set<std::string> keys;
  std::size_t count = 0;
  const std::string text = "1:a1:1:";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (std::size_t j = i; j <= text.size(); ++j, ++count) {
      keys.insert(pail::key::composed({text.substr(0, i), text.substr(i, j - i), text.substr(j)}));
    }
  }
  CHECK(keys.size() == count);
}

TEST_CASE("a key that is too long is cut, and remains itself") {
  const std::string fitting(1024, 'k');
  CHECK(pail::key::fitted(fitting) == fitting);
  const std::string one = pail::key::fitted(fitting + "1");
  CHECK(one.size() == 1024);
  CHECK(one == pail::key::fitted(fitting + "1"));
  CHECK(one != pail::key::fitted(fitting + "2"));
}

TEST_CASE("an address is its network") {
  CHECK(of_address("203.0.113.7") == "203.0.113.7");
  CHECK(of_address("203.0.113.7", {.ipv4_prefix_bits = 24}) == "203.0.113.0/24");
  CHECK(of_address("2001:DB8:0:1:2:3:4:5") == "2001:db8:0:1::/64");
  CHECK(of_address("2001:db8:0:1::") == of_address("2001:db8:0:1:ffff:ffff:ffff:ffff"));
  CHECK(of_address("2001:db8:0:1::") != of_address("2001:db8:0:2::"));
  CHECK(of_address("2001:db8::1", {.ipv6_prefix_bits = 128}) == "2001:db8::1");
  CHECK(of_address("2001:db8:ffff::1", {.ipv6_prefix_bits = 36}) == "2001:db8:f000::/36");
  CHECK(of_address("::ffff:203.0.113.7") == "203.0.113.7");
  CHECK(of_address("fe80::1%eth0") == "fe80::/64");
  for (const char* wrong : {"", "localhost", "1.2.3", "1.2.3.4.5", "::g", "1.2.3.4 ", "[::1]"}) {
    CHECK_FALSE(of_address(wrong).has_value());
  }
  CHECK_FALSE(of_address(std::string_view("1.2.3.4\0", 8)).has_value());
  CHECK_FALSE(of_address(std::string(10'000, '1')).has_value());
}

TEST_CASE("only trusted proxies say who is behind them") {
  const auto proxies = trusting({"10.0.0.0/8", "192.0.2.1", "2001:db8:1::/48"});
  // Nobody who speaks for himself is believed.
  CHECK(proxies.caller("203.0.113.7", "198.51.100.1") == "203.0.113.7");
  CHECK(proxies.caller("10.1.2.3", "198.51.100.1") == "198.51.100.1");
  CHECK(proxies.caller("10.1.2.3", "6.6.6.6, 198.51.100.1") == "198.51.100.1");
  CHECK(proxies.caller("10.1.2.3", "6.6.6.6 , 198.51.100.1, 192.0.2.1 ,10.9.9.9") ==
        "198.51.100.1");
  CHECK(proxies.caller("10.1.2.3:4711", "198.51.100.1:80") == "198.51.100.1");
  CHECK(proxies.caller("[2001:db8:1::5]:4711", "[2001:db8:2::5]:80") == "2001:db8:2::5");
  CHECK(proxies.caller("2001:db8:1::5", "2001:db8:2::5") == "2001:db8:2::5");
  CHECK(proxies.caller("::ffff:10.1.2.3", "198.51.100.1") == "198.51.100.1");
  // What is no address is not passed on as one.
  CHECK(proxies.caller("10.1.2.3", "198.51.100.1, unknown, 10.2.2.2") == "10.2.2.2");
  CHECK(proxies.caller("10.1.2.3", "") == "10.1.2.3");
  CHECK(proxies.caller("10.1.2.3", ",,,") == "10.1.2.3");
  CHECK(proxies.caller("10.1.2.3", "10.0.0.1,10.0.0.2") == "10.0.0.1");
  CHECK(TrustedProxies().caller("10.1.2.3", "198.51.100.1") == "10.1.2.3");
}

TEST_CASE("networks at their edges, and what is none") {
  CHECK(trusting({"0.0.0.0/0"}).caller("203.0.113.7", "1.1.1.1") == "1.1.1.1");
  CHECK(trusting({"0.0.0.0/0"}).caller("2001:db8::1", "1.1.1.1") == "2001:db8::1");
  CHECK(trusting({"10.128.0.0/9"}).caller("10.127.255.255", "1.1.1.1") == "10.127.255.255");
  CHECK(trusting({"10.128.0.0/9"}).caller("10.128.0.0", "1.1.1.1") == "1.1.1.1");
  for (const char* wrong : {"", "10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/x", "ten/8"}) {
    const auto made = TrustedProxies::make({wrong});
    REQUIRE_FALSE(made.has_value());
    CHECK(made.error().code == ErrorCode::bad_argument);
  }
}
