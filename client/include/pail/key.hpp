// Keys: whose budget a request is charged to. What an attacker may choose must not give them
// another's budget, nor as many budgets of their own as they like.
//
// Pure functions of values, for any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <pail/error.hpp>

namespace pail::key {

// Several parts as one key: ("a", "b_c") and ("a_b", "c") are different keys, whatever bytes the
// parts hold. Each part is preceded by its length and a colon: "1:a3:b_c". A key has 1,024 bytes at
// most, see fitted().
[[nodiscard]] std::string composed(std::initializer_list<std::string_view> parts);
[[nodiscard]] std::string composed(std::span<const std::string_view> parts);

// The key itself, or, where it is longer than 1,024 bytes, its first 992 bytes and a 128-bit hash
// of all of it (XXH3, not keyed: who chooses long keys can make two of them one, and so share a
// budget with themselves).
[[nodiscard]] std::string fitted(std::string_view key);

struct AddressOptions {
  // How much of an IPv6 address names a caller: everybody has at least a /64, so that single
  // addresses would be 2^64 budgets. 1 to 128.
  unsigned ipv6_prefix_bits = 64;
  unsigned ipv4_prefix_bits = 32;  // 1 to 32
};

// "203.0.113.7", "2001:db8:0:1::/64": the canonical text (RFC 5952) of the network of an address.
// An IPv4 address that is written as an IPv6 one (::ffff:203.0.113.7) is that IPv4 address; a zone
// (%eth0) is dropped. Nothing where `address` is none.
[[nodiscard]] std::optional<std::string> of_address(std::string_view address,
                                                    const AddressOptions& options = {});

// Networks whose machines are believed what they say of who is behind them.
class TrustedProxies {
 public:
  // "10.0.0.0/8", "2001:db8::/32", "192.0.2.1". Errors: bad_argument.
  [[nodiscard]] static Result<TrustedProxies> make(std::span<const std::string_view> networks);
  [[nodiscard]] static Result<TrustedProxies> make(
      std::initializer_list<std::string_view> networks);

  // Who sent the request: `peer` is the address at the other end of the connection, `forwarded_for`
  // the values of X-Forwarded-For, joined by commas where there are several. Proxies add at the
  // right end, so the first address from there that no trusted proxy has is the caller; what stands
  // left of it anybody could have written. What is no address ends the search: then the last
  // address before it counts. Ports and brackets are dropped.
  [[nodiscard]] std::string caller(std::string_view peer, std::string_view forwarded_for) const;

 private:
  struct Network {
    std::uint8_t bytes[16];  // IPv4 as ::ffff:a.b.c.d
    unsigned bits;
  };
  [[nodiscard]] bool contains(std::string_view address) const;
  std::vector<Network> networks_;
};

}  // namespace pail::key
