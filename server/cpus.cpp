#include "server/cpus.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace pail::server {
namespace {

constexpr const char* kMount = "/sys/fs/cgroup";

std::string read_whole(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "/a/b" and all above it: "/a/b", "/a", "".
std::vector<std::string> with_parents(std::string group) {
  std::vector<std::string> groups;
  while (group.size() > 1) {
    groups.push_back(group);
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
  groups.emplace_back();
  return groups;
}

bool names_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

std::vector<unsigned> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<unsigned> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

bool pin_to(unsigned cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

unsigned cpus_within_quota(unsigned cpus, const std::string& cpu_max) {
  std::istringstream text(cpu_max);
  double quota_us = 0;
  double period_us = 0;
  if (!(text >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return cpus;
  return std::clamp(static_cast<unsigned>(std::min(quota_us / period_us, 65536.0)), 1u, cpus);
}

unsigned cpus_within_cgroups(unsigned cpus, const std::string& own_groups,
                             const ReadFile& read_file) {
  std::istringstream lines(own_groups);
  for (std::string line; std::getline(lines, line);) {
    // "0::/system.slice/paild.service", "4:cpu,cpuacct:/docker/0a1b"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version_2 = controllers.empty();
    if (!is_version_2 && !names_cpu(controllers)) continue;
    for (const std::string& group : with_parents(line.substr(second + 1))) {
      if (is_version_2) {
        cpus = cpus_within_quota(cpus, read_file(kMount + group + "/cpu.max"));
        continue;
      }
      // Mounted under all its controllers' names; "cpu" alone is a link to it, or the mount.
      const std::string directory = std::string(kMount) + "/cpu" + group;
      cpus = cpus_within_quota(cpus, read_file(directory + "/cpu.cfs_quota_us") + " " +
                                         read_file(directory + "/cpu.cfs_period_us"));
    }
  }
  return cpus;
}

unsigned usable_cpus() {
  return cpus_within_cgroups(static_cast<unsigned>(allowed_cpus().size()),
                             read_whole("/proc/self/cgroup"), read_whole);
}

}  // namespace pail::server
