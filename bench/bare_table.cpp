#include "bench/bare_table.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace pail::bench {
namespace {

// Of several GiB, a table without huge pages misses the TLB on every look-up and is 1.15 to 1.65
// times slower.
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

tl::expected<BareTable, std::string> BareTable::make(std::uint32_t keys) {
  const auto wanted = static_cast<std::size_t>(static_cast<double>(keys) / 0.6) + 1;
  const std::size_t count = std::bit_ceil(wanted);
  const std::size_t size_bytes = count * sizeof(Slot);
  void* const memory = size_bytes >= kHugePageBytes
                           ? std::aligned_alloc(kHugePageBytes, size_bytes)
                           : std::aligned_alloc(64, size_bytes < 64 ? 64 : size_bytes);
  if (memory == nullptr) {
    return tl::unexpected(fmt::format("no memory for a bare table of {} keys", keys));
  }
  if (size_bytes >= kHugePageBytes) madvise(memory, size_bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, size_bytes);
  BareTable table(static_cast<Slot*>(memory), count);
  for (std::uint32_t key = 0; key < keys; ++key) {
    const std::uint64_t fingerprint = fingerprint_of(key);
    std::size_t i = table.home_of(fingerprint);
    while (table.slots_[i].fingerprint.load(std::memory_order_relaxed) != 0) {
      i = (i + 1) & table.mask_;
    }
    table.slots_[i].fingerprint.store(fingerprint, std::memory_order_relaxed);
  }
  return table;
}

void BareTable::reset() noexcept {
  for (std::size_t i = 0; i <= mask_; ++i) slots_[i].time.store(0, std::memory_order_relaxed);
}

BareTable::BareTable(BareTable&& other) noexcept
    : slots_(std::exchange(other.slots_, nullptr)), mask_(other.mask_) {}

BareTable::~BareTable() {
  std::free(slots_);
}

}  // namespace pail::bench
