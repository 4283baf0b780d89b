#include "server/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace pail::server {
namespace {

unsigned cpus_in_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Our cgroup in the unified hierarchy: "/system.slice/paild.service".
std::string own_cgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "/";
}

}  // namespace

unsigned cpus_within_quota(unsigned cpus, const std::string& cpu_max) {
  std::istringstream text(cpu_max);
  double quota_us = 0;
  double period_us = 0;
  if (!(text >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return cpus;
  return std::clamp(static_cast<unsigned>(std::min(quota_us / period_us, 65536.0)), 1u, cpus);
}

unsigned usable_cpus() {
  unsigned cpus = cpus_in_mask();
  // Any group on the way up may have a limit.
  for (std::string group = own_cgroup();;) {
    cpus = cpus_within_quota(cpus, first_line("/sys/fs/cgroup" + group + "/cpu.max"));
    const std::size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.size() <= 1) break;
    group.resize(slash);
  }
  return cpus;
}

}  // namespace pail::server
