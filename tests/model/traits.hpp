// The traits by which the table is built for the model: atomics that ask the scheduler first,
// arrays that are told apart from freed ones, sizes of the setting's choice.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/engine/table_types.hpp"
#include "tests/model/hooks.hpp"

namespace pail::model {

// As std::atomic, as far as the table uses it. The value is plain: only one fiber runs at a time.
template <class T>
class Atomic {
 public:
  constexpr Atomic() noexcept = default;
  constexpr Atomic(T value) noexcept : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order) const noexcept {
    before(order);
    return after(Access::load, value_);
  }
  void store(T value, std::memory_order order) noexcept {
    before(order);
    set(value);
    after(Access::store, value);
  }
  T exchange(T value, std::memory_order order) noexcept {
    before(order);
    return after(Access::exchange, set(value));
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order,
                               std::memory_order) noexcept {
    before(order);
    const T old = value_;
    const bool is_equal = old == expected;
    if (is_equal) {
      set(desired);
    } else {
      expected = old;
    }
    after(Access::compare_exchange, old);
    return is_equal;
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order) noexcept {
    return compare_exchange_strong(expected, desired, order, order);
  }
  // Never fails without a reason here: the table does not depend on that it does.
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order,
                             std::memory_order failure) noexcept {
    return compare_exchange_strong(expected, desired, order, failure);
  }
  T fetch_add(T more, std::memory_order order) noexcept {
    before(order);
    return after(Access::fetch_add, set(static_cast<T>(value_ + more)));
  }
  T fetch_sub(T less, std::memory_order order) noexcept {
    before(order);
    return after(Access::fetch_add, set(static_cast<T>(value_ - less)));
  }
  T fetch_or(T bits, std::memory_order order) noexcept {
    before(order);
    return after(Access::fetch_or, set(static_cast<T>(value_ | bits)));
  }

 private:
  void before(std::memory_order order) const noexcept {
    before_access(this, value_, order == std::memory_order_relaxed);
  }
  T after(Access access, T result) const noexcept {
    after_access(this, access, result);
    return result;
  }
  T set(T value) noexcept {
    const T old = value_;
    if (value == old) return old;
    before_write(this, old, value);
    value_ = value;
    after_write(this, value);
    return old;
  }

  T value_{};
};

// The table's hints: those of arrays are accesses like others, as they say when a migration begins.
template <class T>
class Counter {
 public:
  constexpr Counter() noexcept = default;
  constexpr Counter(T value) noexcept : value_(value) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  T load(std::memory_order) const noexcept {
    before();
    return after(Access::load, value_);
  }
  void store(T value, std::memory_order) noexcept {
    before();
    value_ = value;
    after(Access::store, value);
  }
  T fetch_add(T more, std::memory_order) noexcept {
    before();
    value_ = static_cast<T>(value_ + more);
    return after(Access::fetch_add, static_cast<T>(value_ - more));
  }
  T fetch_sub(T less, std::memory_order order) noexcept {
    return fetch_add(static_cast<T>(T{0} - less), order);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order) noexcept {
    before();
    const T old = value_;
    const bool is_equal = old == expected;
    if (is_equal) value_ = desired;
    expected = old;
    after(Access::compare_exchange, old);
    return is_equal;
  }

 private:
  void before() const noexcept {
    if (is_in_array(this)) before_access(this, value_, false);
  }
  T after(Access access, T result) const noexcept {
    if (is_in_array(this)) after_access(this, access, result);
    return result;
  }

  T value_{};
};

class Memory {
 public:
  explicit Memory(const engine::TableOptions&) {}
  void* allocate(std::size_t bytes, engine::Need need) noexcept {
    return allocate_array(bytes, need);
  }
  void release(void* array, std::size_t) noexcept { release_array(array); }
  [[nodiscard]] std::size_t resident_bytes() const noexcept { return 1; }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return 1; }
  [[nodiscard]] bool at_limit() const noexcept { return is_at_array_limit(); }
};

struct Sizing {
  static constexpr std::uint32_t kHelpSlots = 1;
  static constexpr std::uint32_t kSampleSlots = kMaxSlots;
  static constexpr std::uint32_t kGlanceSlots = kMaxSlots;
  static constexpr unsigned kFreesPerTurn = 8;
  static constexpr engine::Ticks kRecentTicks = 0;  // sizes are given, below

  static std::uint32_t lines_for(std::uint64_t, std::uint32_t before) noexcept {
    return setting().next_slots[before];
  }
  static std::uint32_t grow_at(std::uint32_t slots, std::size_t) noexcept {
    return slots - setting().grow_below_full;
  }
  static std::uint32_t close_at(std::uint32_t slots) noexcept {
    return slots - setting().close_below_full;
  }
};

struct Traits {
  template <class T>
  using Atomic = model::Atomic<T>;
  template <class T>
  using Counter = model::Counter<T>;
  using Memory = model::Memory;
  using Sizing = model::Sizing;
  static constexpr std::size_t kMaxThreads = model::kMaxThreads + 1;
  static constexpr std::uint32_t kLineSlots = 1;  // so that an array may have any number of slots
  static engine::Flaw flaw() noexcept { return setting().flaw; }
  static Ticks own_clock() noexcept { return model::own_clock(); }
};

}  // namespace pail::model
