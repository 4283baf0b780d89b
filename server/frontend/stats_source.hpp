// Where the front end gets the numbers of a STATS reply from: whoever owns the shards.
#pragma once

#include <cstddef>

#include "protocol/stats.hpp"

namespace pail::frontend {

class StatsSource {
 public:
  virtual ~StatsSource() = default;
  [[nodiscard]] virtual std::size_t shard_count() const noexcept = 0;
  [[nodiscard]] virtual std::size_t stat_count() const noexcept = 0;
  // `shard` 0: all of them together; n: the n-th. Names live as long as the source. Any thread.
  [[nodiscard]] virtual protocol::Stat stat(std::size_t index,
                                            std::size_t shard) const noexcept = 0;
};

}  // namespace pail::frontend
