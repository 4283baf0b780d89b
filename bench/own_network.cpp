// A network namespace for a comparison: see child.hpp.
#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>

#include "bench/child.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return static_cast<bool>(file);
}

tl::unexpected<std::string> failed(const char* what) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(errno)));
}

tl::expected<void, std::string> unshare_network() {
  if (geteuid() == 0) {
    if (unshare(CLONE_NEWNET) != 0) return failed("a network namespace");
    return {};
  }
  // Without root a user namespace is needed around it, in which we stay who we are.
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return failed("a user and network namespace");
  write_file("/proc/self/setgroups", "deny");
  if (!write_file("/proc/self/uid_map", fmt::format("{0} {0} 1", user)) ||
      !write_file("/proc/self/gid_map", fmt::format("{0} {0} 1", group))) {
    return failed("mapping the user into its namespace");
  }
  return {};
}

tl::expected<void, std::string> raise_loopback() {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strncpy(request.ifr_name, "lo", IFNAMSIZ - 1);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(socket.fd(), SIOCSIFFLAGS, &request) != 0) return failed("raising loopback");
  return {};
}

// A netlink message that is written front to back.
struct RouteMessage {
  nlmsghdr header{};
  rtmsg route{};
  char attributes[256] = {};

  void append(std::uint16_t type, const void* value, std::size_t size) {
    const std::size_t used = header.nlmsg_len - offsetof(RouteMessage, attributes);
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(size)), type};
    std::memcpy(attributes + used, &attribute, sizeof attribute);
    if (size != 0) std::memcpy(attributes + used + sizeof attribute, value, size);
    header.nlmsg_len += static_cast<std::uint32_t>(RTA_ALIGN(RTA_LENGTH(size)));
  }
};
static_assert(offsetof(RouteMessage, attributes) == NLMSG_LENGTH(sizeof(rtmsg)));

// Puts `congestion` on a local route, as `ip route replace ... congctl` does: what uses the route,
// accepted sockets included, uses it. (The default of the namespace would do, but not every
// machine lets it be changed.)
tl::expected<void, std::string> mark_route(std::uint32_t address, std::uint8_t prefix_bits,
                                           const std::string& congestion) {
  RouteMessage message;
  message.header.nlmsg_len = offsetof(RouteMessage, attributes);
  message.header.nlmsg_type = RTM_NEWROUTE;
  message.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
  message.route.rtm_family = AF_INET;
  message.route.rtm_dst_len = prefix_bits;
  message.route.rtm_table = RT_TABLE_LOCAL;
  message.route.rtm_protocol = RTPROT_KERNEL;
  message.route.rtm_scope = RT_SCOPE_HOST;
  message.route.rtm_type = RTN_LOCAL;
  const std::uint32_t source = htonl(INADDR_LOOPBACK);
  const unsigned loopback = if_nametoindex("lo");
  message.append(RTA_DST, &address, sizeof address);
  message.append(RTA_PREFSRC, &source, sizeof source);
  message.append(RTA_OIF, &loopback, sizeof loopback);
  char name[16] = {};
  std::copy_n(congestion.data(), std::min(congestion.size(), sizeof name - 1), name);
  const rtattr metric{RTA_LENGTH(sizeof name), RTAX_CC_ALGO};
  char metrics[sizeof metric + sizeof name];
  std::memcpy(metrics, &metric, sizeof metric);
  std::memcpy(metrics + sizeof metric, name, sizeof name);
  message.append(RTA_METRICS, metrics, sizeof metrics);

  const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (send(socket.fd(), &message, message.header.nlmsg_len, 0) < 0) return failed("netlink");
  struct {
    nlmsghdr header;
    nlmsgerr result;
    char rest[512];
  } answer{};
  if (recv(socket.fd(), &answer, sizeof answer, 0) < 0) return failed("netlink");
  if (answer.result.error == 0) return {};
  errno = -answer.result.error;
  return failed("a route with this TCP congestion control");
}

}  // namespace

tl::expected<void, std::string> enter_own_network(const std::string& congestion) {
  if (auto unshared = unshare_network(); !unshared) return unshared;
  if (auto raised = raise_loopback(); !raised) return raised;
  if (auto marked = mark_route(htonl(0x7F000000), 8, congestion); !marked) return marked;
  return mark_route(htonl(INADDR_LOOPBACK), 32, congestion);
}

}  // namespace pail::bench
