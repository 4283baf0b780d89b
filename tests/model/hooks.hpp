// What the model's atomics and its memory ask the world of the running exploration.
#pragma once

#include <cstddef>
#include <cstdint>

#include "server/engine/table_types.hpp"
#include "tests/model/world.hpp"

namespace pail::model {

// The kinds of access, for the trace.
enum class Access : std::uint8_t { load, store, exchange, compare_exchange, fetch_add, fetch_or };

// Here another thread may come in. `value` is the cell's, for telling what is final.
void before_access(const void* cell, std::uint64_t value, bool is_relaxed);
// The access took effect, and its result is known to the thread.
void after_access(const void* cell, Access access, std::uint64_t result);
// In between, if it changes the cell.
void before_write(const void* cell, std::uint64_t from, std::uint64_t to);
// After that: the ghost follows a thread's decision when it is carried out.
void after_write(const void* cell, std::uint64_t to);

// Counts outside of arrays tell what happened; nothing depends on them.
[[nodiscard]] bool is_in_array(const void* cell);

[[nodiscard]] void* allocate_array(std::size_t bytes, engine::Need need);
void release_array(void* array);
[[nodiscard]] bool is_at_array_limit();

[[nodiscard]] const Setting& setting() noexcept;
[[nodiscard]] Ticks own_clock() noexcept;  // of the running thread

}  // namespace pail::model
