#include "protocol/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace pail::protocol {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr std::size_t kMaxUnixPathBytes = sizeof(sockaddr_un::sun_path) - 1;

tl::unexpected<std::string> wrong(std::string_view text, const std::string& why) {
  return tl::unexpected("address \"" + std::string(text) + "\": " + why);
}

template <class Sockaddr>
Sockaddr as(const Address& address) noexcept {
  Sockaddr value;
  static_assert(sizeof value <= sizeof address.storage);
  std::memcpy(&value, &address.storage, sizeof value);
  return value;
}

template <class Sockaddr>
Address address_of(const Sockaddr& value) {
  Address address;
  std::memcpy(&address.storage, &value, sizeof value);
  address.size_bytes = sizeof value;
  return address;
}

Address tcp_v4(const in_addr& host, std::uint16_t port) {
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr = host;
  value.sin_port = htons(port);
  Address address = address_of(value);
  address.is_tcp = true;
  address.is_loopback = (ntohl(host.s_addr) >> 24) == 127;
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &host, text.data(), text.size());
  address.text = std::string(text.data()) + ":" + std::to_string(port);
  return address;
}

Address tcp_v6(const in6_addr& host, std::uint16_t port) {
  sockaddr_in6 value{};
  value.sin6_family = AF_INET6;
  value.sin6_addr = host;
  value.sin6_port = htons(port);
  Address address = address_of(value);
  address.is_tcp = true;
  // A mapped 127.x.y.z is the v4 address itself: bytes 12 to 15.
  address.is_loopback = IN6_IS_ADDR_LOOPBACK(&host) != 0 ||
                        (IN6_IS_ADDR_V4MAPPED(&host) != 0 && host.s6_addr[12] == 127);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &host, text.data(), text.size());
  address.text = "[" + std::string(text.data()) + "]:" + std::to_string(port);
  return address;
}

tl::expected<Address, std::string> unix_socket(std::string_view text, std::string_view path) {
  // "unix:name" and "unix:@name" are refused, not guessed at: elsewhere they mean a relative path,
  // or Linux's abstract names, which have no permissions.
  if (path.empty() || (path.front() != '/' && path.front() != '.')) {
    return wrong(text, "a Unix socket is unix: and a path that begins with / or .");
  }
  if (path.size() > kMaxUnixPathBytes) {
    return wrong(text,
                 "the path is too long: " + std::to_string(kMaxUnixPathBytes) + " bytes at most");
  }
  if (path.find('\0') != std::string_view::npos)
    return wrong(text, "the path contains a zero byte");
  sockaddr_un value{};
  value.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), value.sun_path);
  Address address = address_of(value);
  address.size_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  address.is_loopback = true;
  address.text = std::string(kUnixPrefix) + std::string(path);
  return address;
}

// "" is the default port, else ":" and a number.
tl::expected<std::uint16_t, std::string> parse_port(std::string_view text,
                                                    std::string_view suffix) {
  if (suffix.empty()) return kDefaultPort;
  std::uint16_t port = 0;
  const char* const begin = suffix.data() + 1;
  const char* const end = suffix.data() + suffix.size();
  const auto [stop, error] = std::from_chars(begin, end, port);
  if (suffix.front() != ':' || begin == end || stop != end || error != std::errc{}) {
    return wrong(text, "the port is a number, 0 to 65535, after a colon");
  }
  return port;
}

}  // namespace

tl::expected<Address, std::string> parse_address(std::string_view text) {
  if (text.empty()) return wrong(text, "it is empty; write 127.0.0.1:7245 or unix:/path");
  if (text.starts_with(kUnixPrefix)) return unix_socket(text, text.substr(kUnixPrefix.size()));

  const bool in_brackets = text.front() == '[';
  const std::size_t host_end = text.find(in_brackets ? ']' : ':');
  if (in_brackets && host_end == std::string_view::npos)
    return wrong(text, "there is no closing ]");
  if (!in_brackets && host_end != std::string_view::npos &&
      text.find(':', host_end + 1) != std::string_view::npos) {
    return wrong(text, "an IPv6 address is written in brackets: [::1]:7245");
  }
  if (host_end == 0) {
    return wrong(text, "there is no host; write 127.0.0.1" + std::string(text) +
                           ", or 0.0.0.0 for every interface");
  }

  const std::string host(in_brackets ? text.substr(1, host_end - 1) : text.substr(0, host_end));
  std::string_view suffix;
  if (host_end != std::string_view::npos) suffix = text.substr(host_end + (in_brackets ? 1 : 0));
  const auto port = parse_port(text, suffix);
  if (!port) return tl::unexpected(port.error());
  if (host.find('\0') != std::string::npos) return wrong(text, "the host contains a zero byte");

  if (in_brackets) {
    in6_addr v6{};
    if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return tcp_v6(v6, *port);
    return wrong(text, "not an IPv6 address between the brackets");
  }
  in_addr v4{};
  const char* const number = host == "localhost" ? "127.0.0.1" : host.c_str();
  if (inet_pton(AF_INET, number, &v4) == 1) return tcp_v4(v4, *port);
  return wrong(text,
               "names are not looked up; write an IPv4 address, an IPv6 address in brackets, "
               "localhost, or unix:/path");
}

tl::expected<Address, std::string> address_from(const sockaddr* address, socklen_t size_bytes) {
  Address raw;
  if (size_bytes < sizeof raw.storage.ss_family) return wrong("", "too short to have a family");
  const std::size_t size = std::min(std::size_t{size_bytes}, sizeof raw.storage);
  std::memcpy(&raw.storage, address, size);
  if (raw.family() == AF_INET && size >= sizeof(sockaddr_in)) {
    const auto v4 = as<sockaddr_in>(raw);
    return tcp_v4(v4.sin_addr, ntohs(v4.sin_port));
  }
  if (raw.family() == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    const auto v6 = as<sockaddr_in6>(raw);
    return tcp_v6(v6.sin6_addr, ntohs(v6.sin6_port));
  }
  if (raw.family() == AF_UNIX) {
    raw.size_bytes = static_cast<socklen_t>(size);
    raw.is_loopback = true;
    raw.text = std::string(kUnixPrefix) + raw.unix_path();
    return raw;
  }
  return wrong("", "neither TCP over IPv4 or IPv6 nor a Unix socket");
}

std::uint16_t Address::port() const noexcept {
  if (family() == AF_INET) return ntohs(as<sockaddr_in>(*this).sin_port);
  if (family() == AF_INET6) return ntohs(as<sockaddr_in6>(*this).sin6_port);
  return 0;
}

std::string Address::unix_path() const {
  if (family() != AF_UNIX || size_bytes <= offsetof(sockaddr_un, sun_path)) return {};
  const auto value = as<sockaddr_un>(*this);
  const std::size_t most =
      std::min(std::size_t{size_bytes} - offsetof(sockaddr_un, sun_path), sizeof value.sun_path);
  return {value.sun_path, strnlen(value.sun_path, most)};
}

}  // namespace pail::protocol
