// How much memory the table may have where nobody said: half of what this process may use.
#pragma once

#include <cstddef>
#include <string>

namespace pail::server {

inline constexpr std::size_t kMinTableBytes = std::size_t{16} << 20;

// `bytes`, or less if a cgroup's limit file says so: a number, or "max" for no limit.
[[nodiscard]] std::size_t bytes_within_limit(std::size_t bytes, const std::string& limit);

// The machine's memory, or our cgroup's where that is less.
[[nodiscard]] std::size_t usable_memory_bytes();

// Half of it: the rest is for connections, for arrays that are being copied, and for the system.
[[nodiscard]] std::size_t default_table_bytes();

}  // namespace pail::server
