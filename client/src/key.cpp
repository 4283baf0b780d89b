#include <pail/key.hpp>

#include <arpa/inet.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "protocol/messages.hpp"

namespace pail::key {
namespace {

constexpr std::size_t kMaxAddressText = 64;
constexpr unsigned kMappedBits = 96;  // of ::ffff:0:0/96, in which IPv4 lies

// IPv4 as ::ffff:a.b.c.d, so that there is one kind of address.
using Address = std::array<std::uint8_t, 16>;

bool is_ipv4(const Address& address) {
  constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(kMapped.begin(), kMapped.end(), address.begin());
}

std::optional<Address> parse(std::string_view text) {
  text = text.substr(0, text.find('%'));
  if (text.empty() || text.size() > kMaxAddressText) return std::nullopt;
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  const std::string copy(text);
  Address address{};
  if (::inet_pton(AF_INET6, copy.c_str(), address.data()) == 1) return address;
  address[10] = address[11] = 0xFF;
  if (::inet_pton(AF_INET, copy.c_str(), address.data() + 12) == 1) return address;
  return std::nullopt;
}

// "203.0.113.7:4711", "[2001:db8::1]:4711", and without.
std::string_view without_port(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  const std::size_t colon = text.find(':');
  const bool has_port = colon != std::string_view::npos && colon == text.rfind(':');
  return has_port ? text.substr(0, colon) : text;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

void clear_behind(Address& address, unsigned bits) {
  for (unsigned i = 0; i < address.size(); ++i) {
    const unsigned kept = std::clamp(bits, i * 8, i * 8 + 8) - i * 8;
    address[i] = static_cast<std::uint8_t>(address[i] & (0xFF00u >> kept));
  }
}

std::string text_of(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (is_ipv4(address)) {
    ::inet_ntop(AF_INET, address.data() + 12, text.data(), text.size());
  } else {
    ::inet_ntop(AF_INET6, address.data(), text.data(), text.size());
  }
  return text.data();
}

}  // namespace

std::string composed(std::span<const std::string_view> parts) {
  std::string key;
  for (const std::string_view part : parts) {
    key += std::to_string(part.size());
    key += ':';
    key += part;
  }
  return key;
}

std::string composed(std::initializer_list<std::string_view> parts) {
  return composed(std::span(parts.begin(), parts.size()));
}

std::string fitted(std::string_view key) {
  if (key.size() <= protocol::kMaxKeyBytes) return std::string(key);
  constexpr std::string_view kHex = "0123456789abcdef";
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(key.data(), key.size()));
  std::string fitting(key.substr(0, protocol::kMaxKeyBytes - 2 * sizeof hash.digest));
  for (const unsigned char byte : hash.digest) {
    fitting += kHex[byte >> 4];
    fitting += kHex[byte & 15];
  }
  return fitting;
}

std::optional<std::string> of_address(std::string_view text, const AddressOptions& options) {
  auto address = parse(text);
  if (!address) return std::nullopt;
  const bool is_short = is_ipv4(*address);
  const unsigned whole = is_short ? 32 : 128;
  const unsigned bits =
      std::min(is_short ? options.ipv4_prefix_bits : options.ipv6_prefix_bits, whole);
  clear_behind(*address, is_short ? kMappedBits + bits : bits);
  return bits == whole ? text_of(*address) : text_of(*address) + "/" + std::to_string(bits);
}

Result<TrustedProxies> TrustedProxies::make(std::span<const std::string_view> networks) {
  TrustedProxies proxies;
  for (const std::string_view text : networks) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    auto address = parse(text.substr(0, slash));
    const unsigned whole = address && is_ipv4(*address) ? 32 : 128;
    unsigned bits = whole;
    bool is_right = address.has_value();
    if (slash != text.size()) {
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, bits);
      is_right = is_right && error == std::errc{} && stop == end && bits <= whole;
    }
    if (!is_right) {
      return tl::unexpected(
          Error{ErrorCode::bad_argument,
                "\"" + std::string(text) + "\" is no network, as in 10.0.0.0/8 or 2001:db8::/32"});
    }
    Network network{};
    network.bits = whole == 32 ? kMappedBits + bits : bits;
    clear_behind(*address, network.bits);
    std::memcpy(network.bytes, address->data(), address->size());
    proxies.networks_.push_back(network);
  }
  return proxies;
}

Result<TrustedProxies> TrustedProxies::make(std::initializer_list<std::string_view> networks) {
  return make(std::span(networks.begin(), networks.size()));
}

bool TrustedProxies::contains(std::string_view text) const {
  const auto address = parse(text);
  if (!address) return false;
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    Address masked = *address;
    clear_behind(masked, network.bits);
    return std::memcmp(masked.data(), network.bytes, masked.size()) == 0;
  });
}

std::string TrustedProxies::caller(std::string_view peer, std::string_view forwarded_for) const {
  std::string_view known = without_port(trimmed(peer));
  while (contains(known) && !forwarded_for.empty()) {
    const std::size_t comma = forwarded_for.rfind(',');
    const bool is_last = comma == std::string_view::npos;
    const std::string_view next =
        without_port(trimmed(forwarded_for.substr(is_last ? 0 : comma + 1)));
    forwarded_for = is_last ? std::string_view() : forwarded_for.substr(0, comma);
    if (!parse(next)) break;
    known = next;
  }
  return std::string(known);
}

}  // namespace pail::key
