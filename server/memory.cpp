#include "server/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

namespace pail::server {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Our group in the unified hierarchy, as in "/system.slice/paild.service"; "" is the root.
std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::/", 0) == 0) return line.size() > 4 ? line.substr(3) : "";
  }
  return "";
}

}  // namespace

std::size_t bytes_within_limit(std::size_t bytes, const std::string& limit) {
  std::size_t most = 0;
  const char* const end = limit.data() + limit.size();
  const auto [stop, error] = std::from_chars(limit.data(), end, most);
  if (error != std::errc{} || stop != end || most == 0) return bytes;
  return std::min(bytes, most);
}

std::size_t usable_memory_bytes() {
  std::size_t bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // Any group on the way up may have a limit.
  for (std::string group = own_group();; group.resize(group.rfind('/'))) {
    bytes = bytes_within_limit(bytes, first_line("/sys/fs/cgroup" + group + "/memory.max"));
    if (group.empty()) break;
  }
  // The first version of cgroups, as a container sees its own group.
  return bytes_within_limit(bytes, first_line("/sys/fs/cgroup/memory/memory.limit_in_bytes"));
}

std::size_t default_table_bytes() {
  return std::max(kMinTableBytes, usable_memory_bytes() / 2);
}

}  // namespace pail::server
