// The invariants of table.hpp, looked at slot by slot. For tests; nobody else may be using the
// table. (Part of table.hpp: include that.)
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "server/engine/table.hpp"

namespace pail::engine {

template <class Traits>
class SegmentCheck {
  using ArrayRef = engine::ArrayRef<Traits>;

 public:
  // The chain from the segment's current array on.
  explicit SegmentCheck(ArrayRef first) {
    for (ArrayRef at = first; at; at = ArrayRef(at->next.load(std::memory_order_relaxed))) {
      chain_.push_back(at);
    }
  }

  [[nodiscard]] std::string run() {
    for (std::size_t i = 0; i < chain_.size() && fault_.empty(); ++i) check_array(i);
    return fault_;
  }

 private:
  void check_array(std::size_t index) {
    const ArrayRef at = chain_[index];
    const bool linked = index + 1 < chain_.size();
    if (linked && chain_[index + 1]->born < at->born) fail("born decreases along the chain");
    if (at->cursor.load(std::memory_order_relaxed) > at.slots()) fail("a cursor is past its end");
    std::unordered_map<std::uint64_t, int> owners;
    std::uint32_t claimed = 0;
    for (std::uint32_t i = 0; i < at.slots(); ++i) {
      const std::uint64_t print = at->slot(i).print.load(std::memory_order_relaxed);
      const Word word = at->slot(i).word.load(std::memory_order_relaxed);
      if (print == kEmpty || print == kTombstone) {
        if (word != 0) fail("a slot without a key has a word");
        if (print == kTombstone && !linked) fail("a tombstone in the last array");
        if (print == kEmpty && i < at->cursor.load(std::memory_order_relaxed)) {
          fail("an empty slot behind the cursor");
        }
        continue;
      }
      ++claimed;
      if (++owners[print] > 1) fail("two slots of one key in an array");
      if ((word & kFrozen) != 0 && !linked) fail("a frozen word in the last array");
      if ((word & kFrozen) == 0) {
        if (i < at->cursor.load(std::memory_order_relaxed))
          fail("an unfrozen word behind the cursor");
        if (++unfrozen_[print] > 1) fail("two unfrozen entries of one key");
      }
      Probe<Traits> probe(at, print);
      if (probe.look() != Found::mine || &probe.slot() != &at->slot(i)) {
        fail("an entry that a search does not find");
      }
    }
    if (claimed != at->claimed.load(std::memory_order_relaxed)) fail("a wrong count of entries");
  }

  void fail(const char* what) {
    if (fault_.empty()) fault_ = what;
  }

  std::vector<ArrayRef> chain_;
  std::unordered_map<std::uint64_t, int> unfrozen_;
  std::string fault_;
};

template <class Traits>
std::string Table<Traits>::check_invariants() const {
  for (std::size_t segment = 0; segment < segment_count_; ++segment) {
    const ArrayRef first(segments_[segment].load(std::memory_order_acquire));
    if (std::string fault = SegmentCheck<Traits>(first).run(); !fault.empty()) {
      return "segment " + std::to_string(segment) + ": " + fault;
    }
  }
  return {};
}

}  // namespace pail::engine
