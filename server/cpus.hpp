// How many CPUs this process may use.
#pragma once

#include <string>

namespace pail::server {

// The cores that the affinity mask allows, or fewer where a cgroup limits CPU time; at least 1.
[[nodiscard]] unsigned usable_cpus();

// The same for given limits: the pure part. `quota` is the text of cpu.max: "max 100000", "150000
// 100000". Half a CPU counts as one; one and a half as one as well, since a shard that is throttled
// delays everybody.
[[nodiscard]] unsigned cpus_within_quota(unsigned cpus, const std::string& cpu_max);

}  // namespace pail::server
