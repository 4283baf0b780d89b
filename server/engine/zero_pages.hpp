// Pages of zeros from the kernel, which become resident as they are touched: so what is made of
// them costs nothing where it is not used.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace pail::engine {

// nullptr if refused; back by munmap.
[[nodiscard]] inline std::byte* map_zeros(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace pail::engine
