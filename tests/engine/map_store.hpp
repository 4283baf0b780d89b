// A table for tests of what is built on one: a few entries, one thread, and a clock of its own that
// says what time it really is.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>

#include "server/engine/reset_fence.hpp"
#include "server/engine/table_types.hpp"

namespace pail::test {

class MapStore {
 public:
  template <class Decide>
  engine::Outcome update(engine::KeyHash hash, engine::Access access, engine::Ticks now,
                         Decide&& decide) {
    Entry& entry = find(hash);
    const std::optional<engine::Word> next = decide(entry.word, now);
    if (!next || (!entry.is_made && access == engine::Access::find)) {
      return engine::Outcome::unchanged;
    }
    if (*next == 0 || *next >> 63 != 0) throw std::logic_error("a word that may not be written");
    if (!entry.is_made) ++made_;
    entry.is_made = true;
    entry.word = *next;
    return engine::Outcome::written;
  }
  [[nodiscard]] engine::Ticks fresh(engine::Ticks at) const { return std::max(at, true_now); }
  [[nodiscard]] engine::ResetFence& fence() const { return *fence_; }

  [[nodiscard]] engine::Word word(engine::KeyHash hash) { return find(hash).word; }
  [[nodiscard]] std::size_t made() const { return made_; }

  engine::Ticks true_now = 0;

 private:
  struct Entry {
    engine::KeyHash hash;
    engine::Word word = 0;
    bool is_made = false;
    bool is_known = false;
  };

  Entry& find(engine::KeyHash hash) {
    for (Entry& entry : entries_) {
      if (!entry.is_known) entry = {hash, 0, false, true};
      if (entry.hash.low == hash.low && entry.hash.high == hash.high) return entry;
    }
    throw std::logic_error("more entries than the test has room for");
  }

  std::array<Entry, 16> entries_;
  std::size_t made_ = 0;
  std::shared_ptr<engine::ResetFence> fence_ = std::make_shared<engine::ResetFence>();
};

}  // namespace pail::test
