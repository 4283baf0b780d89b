// How many CPUs this process may use, and which.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace pail::server {

// The cores that the affinity mask allows, ascending; at least one.
[[nodiscard]] std::vector<unsigned> allowed_cpus();

// So many cores, or fewer where a cgroup limits CPU time; at least 1.
[[nodiscard]] unsigned usable_cpus();

// The calling thread runs on that core only. False: the kernel refused.
[[nodiscard]] bool pin_to(unsigned cpu) noexcept;

// The rest is pure: file texts in, numbers out.

// `cpu_max` is the text of cpu.max: "max 100000", "150000 100000". Half a CPU counts as one; one
// and a half as one as well, since a shard that is throttled delays everybody.
[[nodiscard]] unsigned cpus_within_quota(unsigned cpus, const std::string& cpu_max);

// What a file holds; empty where there is none.
using ReadFile = std::function<std::string(const std::string& path)>;

// The smallest limit of our groups and of all above them, in both versions of cgroups: cpu.max of
// version 2, cpu.cfs_quota_us and cpu.cfs_period_us of version 1. `own_groups` is the text of
// /proc/self/cgroup. Within a container its paths may be the host's, so the root of each mount is
// looked at as well.
[[nodiscard]] unsigned cpus_within_cgroups(unsigned cpus, const std::string& own_groups,
                                           const ReadFile& read_file);

}  // namespace pail::server
