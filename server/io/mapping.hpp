// A piece of zeroed memory from the kernel, whose pages cost nothing until they are touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <utility>

namespace pail::io {

class Mapping {
 public:
  Mapping() = default;
  // Empty where the kernel has no room: check with is_valid().
  explicit Mapping(std::size_t size_bytes) noexcept {
    void* const at = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return;
    data_ = static_cast<std::byte*>(at);
    size_bytes_ = size_bytes;
  }
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_bytes_);
  }
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_bytes_, other.size_bytes_);
    return *this;
  }

  [[nodiscard]] bool is_valid() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
};

}  // namespace pail::io
