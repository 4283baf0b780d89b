// The set of policies in force, and those before it that somebody may still be reading.
//
// Any thread replaces the set; workers load the pointer once a batch. A set that was replaced is
// freed once every worker has passed a quiescent state since, which the table's threads count
// already (quiescence.hpp). From that moment on the newer set is `settled`: no worker decides by an
// older one any more, so words that no limit of the newer one can have written may be lowered.
//
//   current_   release by replace(), acquire by current(): the set behind it
//   settled_   release by settle(), acquire by is_settled(): that what others did by older sets is
//              over, by horizon()'s acquire
//
// Progress: readers wait for nobody; replace() and settle() exclude each other by a mutex that no
// request ever takes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "server/engine/policy.hpp"

namespace pail::engine {

class PolicyBook {
 public:
  explicit PolicyBook(PolicySet&& first)
      : current_(new PolicySet(std::move(first))),
        settled_(current_.load(std::memory_order_relaxed)->version()),
        version_(settled_.load(std::memory_order_relaxed)) {}
  ~PolicyBook() { delete current_.load(std::memory_order_relaxed); }  // no worker is left
  PolicyBook(const PolicyBook&) = delete;
  PolicyBook& operator=(const PolicyBook&) = delete;

  // Until the caller's next quiescent state.
  [[nodiscard]] const PolicySet& current() const noexcept {
    return *current_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_settled(const PolicySet& set) const noexcept {
    return settled_.load(std::memory_order_acquire) == set.version();
  }
  [[nodiscard]] std::uint32_t settled_version() const noexcept {
    return settled_.load(std::memory_order_acquire);
  }
  // From any thread: needs no quiescent state.
  [[nodiscard]] std::uint32_t version() const noexcept {
    return version_.load(std::memory_order_relaxed);
  }
  // A hint: settle() has something to do.
  [[nodiscard]] bool has_retired() const noexcept {
    return retired_count_.load(std::memory_order_relaxed) != 0;
  }

  // `make(const PolicySet& current)` makes the next one, or says why not; `stamp()` is that of
  // Quiescence.
  template <class Make, class Stamp>
  [[nodiscard]] tl::expected<std::uint32_t, PolicyError> replace(Make&& make, Stamp&& stamp) {
    const std::lock_guard lock(mutex_);
    const PolicySet* const before = current_.load(std::memory_order_relaxed);
    auto next = make(*before);
    if (!next) return tl::unexpected(next.error());
    auto set = std::make_unique<PolicySet>(std::move(*next));
    const std::uint32_t version = set->version();
    retired_.reserve(retired_.size() + 1);
    current_.store(set.release(), std::memory_order_release);
    version_.store(version, std::memory_order_relaxed);
    retired_.push_back({std::unique_ptr<const PolicySet>(before), stamp()});
    retired_count_.store(retired_.size(), std::memory_order_relaxed);
    return version;
  }

  // Frees what nobody reads any more. Gives up where somebody else is at it.
  template <class Horizon>
  void settle(Horizon&& horizon) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || retired_.empty()) return;
    const std::uint64_t free_below = horizon();
    std::erase_if(retired_, [&](const Retired& one) { return one.stamp < free_below; });
    retired_count_.store(retired_.size(), std::memory_order_relaxed);
    if (!retired_.empty()) return;
    settled_.store(current_.load(std::memory_order_relaxed)->version(), std::memory_order_release);
  }

 private:
  struct Retired {
    std::unique_ptr<const PolicySet> set;
    std::uint64_t stamp = 0;
  };

  std::atomic<const PolicySet*> current_;
  std::atomic<std::uint32_t> settled_;  // the version of the last settled set
  std::atomic<std::uint32_t> version_;
  std::atomic<std::size_t> retired_count_{0};
  std::mutex mutex_;
  std::vector<Retired> retired_;  // under the mutex
};

}  // namespace pail::engine
