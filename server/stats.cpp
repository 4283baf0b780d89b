// The numbers of a STATS reply: which there are, in which order, and how shards add up.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "server/server.hpp"

namespace pail::server {
namespace {

using protocol::Stat;
using protocol::StatKind;

enum class Own : std::uint8_t {
  uptime_ms,
  shards,
  connections,
  resident_bytes,    // of the whole process
  keys,              // entries in the table, those that are idle and not yet forgotten included
  table_bytes,       // resident
  memory_limit,      // of them
  keys_refused,      // takes that found no room for their key
  unknown_policies,  // requests for policies that there are not
};
constexpr std::array<std::string_view, 9> kOwnLabels = {
    "uptime_ms",   "shards",       "connections",  "resident_bytes",  "keys",
    "table_bytes", "memory_limit", "keys_refused", "unknown_policies"};

// What the process holds of the machine's memory. A few microseconds, for a human's question.
std::uint64_t resident_bytes() noexcept {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t size = ::read(file, text.data(), text.size() - 1);
  ::close(file);
  unsigned long pages = 0;
  if (size <= 0 || std::sscanf(text.data(), "%*u %lu", &pages) != 1) return 0;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

constexpr std::size_t kFirstShardCount = kOwnLabels.size();
constexpr std::size_t kFirstNativeCount = kFirstShardCount + kShardCounts;
constexpr std::size_t kFirstTurnTime = kFirstNativeCount + frontend::kNativeCounts;
constexpr std::size_t kFirstRespCount = kFirstTurnTime + kTurnTimes;
constexpr std::size_t kStats = kFirstRespCount + frontend::kRespCounts;

// A counter of one shard, by its place in the list.
Stat counter_of(const Metrics& metrics, std::size_t index) noexcept {
  if (index < kFirstNativeCount) {
    index -= kFirstShardCount;
    return {StatKind::counter, kShardCountLabels[index], metrics.shard.read(index)};
  }
  if (index < kFirstTurnTime) {
    index -= kFirstNativeCount;
    return {StatKind::counter, frontend::kNativeCountLabels[index], metrics.native.read(index)};
  }
  if (index >= kFirstRespCount) {
    index -= kFirstRespCount;
    return {StatKind::counter, frontend::kRespCountLabels[index], metrics.resp.read(index)};
  }
  index -= kFirstTurnTime;
  return {StatKind::counter, kTurnTimeLabels[index], metrics.turn_times.read(index)};
}

}  // namespace

std::size_t Server::stat_count() const noexcept {
  return kStats;
}

Stat Server::stat(std::size_t index, std::size_t shard) const noexcept {
  if (index < kFirstShardCount) {
    Stat stat{StatKind::gauge, kOwnLabels[index], 0};
    switch (static_cast<Own>(index)) {
      case Own::uptime_ms:
        stat.value = clock_.now().us / 1000;
        break;
      case Own::shards:
        stat.value = shards_.size();
        break;
      case Own::keys:
        stat.value = engine_.table_stats().entries;
        break;
      case Own::table_bytes:
        stat.value = engine_.table_stats().resident_bytes;
        break;
      case Own::memory_limit:
        stat.value = engine_.table_stats().memory_limit_bytes;
        break;
      case Own::keys_refused:
        stat.kind = StatKind::counter;
        stat.value = engine_.table_stats().refused_keys;
        break;
      case Own::unknown_policies:
        stat.kind = StatKind::counter;
        stat.value = engine_.unknown_policies();
        break;
      case Own::connections:
        stat.value = shard == 0 ? connections() : connections_of(shard - 1);
        break;
      case Own::resident_bytes:
        stat.value = resident_bytes();
        break;
    }
    return stat;
  }
  if (shard != 0) return counter_of(shards_[shard - 1]->metrics(), index);
  Stat sum = counter_of(shards_.front()->metrics(), index);
  for (std::size_t i = 1; i < shards_.size(); ++i) {
    sum.value += counter_of(shards_[i]->metrics(), index).value;
  }
  return sum;
}

}  // namespace pail::server
