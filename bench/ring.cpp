#include "bench/ring.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace pail::bench {
namespace {

constexpr unsigned short kBufferGroup = 0;
constexpr unsigned kCompletionEntries = 16 * 1024;  // 2 a connection and some: never overflows

tl::unexpected<std::string> failed(const char* what, int error) {
  return tl::unexpected(fmt::format("{}: {}", what, std::strerror(error)));
}

void* map_pages(std::size_t size_bytes) noexcept {
  // Populated at once: a page fault during the run would be measured.
  return mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

}  // namespace

Ring::~Ring() {
  if (is_open_) io_uring_queue_exit(&ring_);
  if (buffer_ring_ != nullptr) munmap(buffer_ring_, count_ * sizeof(io_uring_buf));
  if (buffers_ != nullptr) munmap(buffers_, std::size_t{count_} * kBufferBytes);
}

tl::expected<void, std::string> Ring::open(unsigned entries, unsigned buffers) {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE |
                     IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL;
  parameters.cq_entries = kCompletionEntries;
  int error = -io_uring_queue_init_params(entries, &ring_, &parameters);
  if (error > 0)
    return failed("io_uring (Linux 6.1 or newer, not forbidden by a container)", error);
  is_open_ = true;
  io_uring_register_ring_fd(&ring_);  // An optimisation: it may fail.

  count_ = buffers;
  void* slab = map_pages(std::size_t{count_} * kBufferBytes);
  void* ring = map_pages(count_ * sizeof(io_uring_buf));
  if (slab != MAP_FAILED) buffers_ = static_cast<std::byte*>(slab);
  if (ring != MAP_FAILED) buffer_ring_ = static_cast<io_uring_buf_ring*>(ring);
  if (buffers_ == nullptr || buffer_ring_ == nullptr) return failed("receive buffers", errno);

  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uint64_t>(buffer_ring_);
  registration.ring_entries = count_;
  registration.bgid = kBufferGroup;
  error = -io_uring_register_buf_ring(&ring_, &registration, 0);
  if (error > 0) return failed("registering the receive buffers (Linux 5.19 or newer)", error);
  io_uring_buf_ring_init(buffer_ring_);
  for (unsigned i = 0; i < count_; ++i) {
    io_uring_buf_ring_add(buffer_ring_, buffers_ + std::size_t{i} * kBufferBytes, kBufferBytes,
                          static_cast<unsigned short>(i), static_cast<int>(count_ - 1),
                          static_cast<int>(i));
  }
  io_uring_buf_ring_advance(buffer_ring_, static_cast<int>(count_));
  return {};
}

io_uring_sqe* Ring::next_entry() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    if (io_uring_submit(&ring_) < 0) std::abort();  // Nothing else empties the queue.
    entry = io_uring_get_sqe(&ring_);
  }
  return entry;
}

void Ring::arm_receive(int fd, bool is_fixed_file, std::uint32_t slot) noexcept {
  io_uring_sqe* entry = next_entry();
  io_uring_prep_recv_multishot(entry, fd, nullptr, 0, 0);
  entry->flags |= IOSQE_BUFFER_SELECT;
  if (is_fixed_file) entry->flags |= IOSQE_FIXED_FILE;
  entry->buf_group = kBufferGroup;
  entry->user_data = Completion{Completion::Kind::receive, slot}.encode();
}

}  // namespace pail::bench
