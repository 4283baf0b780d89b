// The memory of arrays: blocks are zeroed and nobody else's, empty chunks go back, the limit holds
// by need. Method: fill every block with a pattern of its own and look whether it is still there;
// then the same from several threads.
#include "server/engine/array_memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <latch>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"

using namespace pail::engine;
using pail::test::Random;

namespace {

struct Block {
  std::uint64_t* words = nullptr;
  std::size_t bytes = 0;
  std::uint64_t pattern = 0;
};

bool holds_only(const Block& block, std::uint64_t value) {
  return std::all_of(block.words, block.words + block.bytes / 8,
                     [value](std::uint64_t word) { return word == value; });
}

Block take_block(ArrayMemory& memory, std::size_t bytes, std::uint64_t pattern) {
  Block block{static_cast<std::uint64_t*>(memory.allocate(bytes, Need::growth)), bytes, pattern};
  if (block.words == nullptr) return block;
  if (!holds_only(block, 0) || reinterpret_cast<std::uintptr_t>(block.words) % 64 != 0) {
    block.bytes = 0;  // told by the caller's check
    return block;
  }
  std::fill(block.words, block.words + bytes / 8, pattern);
  return block;
}

// Returns what went wrong, if anything: doctest's checks are not for several threads.
const char* churn(ArrayMemory& memory, std::uint64_t stream, int steps, std::size_t largest) {
  Random random(stream);
  std::vector<Block> blocks;
  const char* fault = nullptr;
  for (int step = 0; step < steps && fault == nullptr; ++step) {
    if (blocks.size() < 200 && !random.one_in(3)) {
      const std::size_t bytes = random.magnitude(1, largest / 64) * 64;
      blocks.push_back(take_block(memory, bytes, random.next() | 1));
      if (blocks.back().bytes != bytes) fault = "a block is not zeroed or not aligned";
      if (blocks.back().words == nullptr) fault = "no block without a limit";
    } else if (!blocks.empty()) {
      std::swap(blocks[random.below(blocks.size())], blocks.back());
      if (!holds_only(blocks.back(), blocks.back().pattern))
        fault = "a block was written by another";
      memory.release(blocks.back().words, blocks.back().bytes);
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) {
    if (block.words != nullptr) memory.release(block.words, block.bytes);
  }
  return fault;
}

}  // namespace

TEST_CASE("blocks of all sizes are zeroed, apart, and go back to the kernel") {
  ArrayMemory memory({});
  CHECK(memory.resident_bytes() == 0);
  const char* fault = churn(memory, 41, 1500, std::size_t{2} << 20);
  CHECK_MESSAGE(fault == nullptr, fault);
  // But for an empty chunk of each arena that was used, and those that are kept ready.
  while (memory.resident_bytes() > 5 * ArrayMemory::kChunkBytes) std::this_thread::yield();
}

TEST_CASE("growth stops before reclaim, reclaim at the limit, copies never") {
  constexpr std::size_t kLimit = std::size_t{64} << 20;
  ArrayMemory memory({.memory_limit_bytes = kLimit});
  constexpr std::size_t kBlock = 64 * 1024;
  std::vector<void*> blocks;
  const auto fill = [&](Need need, std::size_t most) {
    std::size_t count = 0;
    while (count < most) {
      void* block = memory.allocate(kBlock, need);
      if (block == nullptr) break;
      blocks.push_back(block);
      ++count;
    }
    return count;
  };
  CHECK(!memory.at_limit());
  while (!memory.at_limit()) fill(Need::growth, 10'000);
  CHECK(memory.resident_bytes() <= kLimit - ArrayMemory::kChunkBytes);
  CHECK(memory.resident_bytes() >= kLimit - 2 * ArrayMemory::kChunkBytes);
  CHECK(fill(Need::reclaim, 10'000) > 0);
  CHECK(memory.resident_bytes() <= kLimit);
  CHECK(fill(Need::growth, 1) == 0);
  CHECK(fill(Need::copy, 100) == 100);
  CHECK(memory.resident_bytes() > kLimit);
  for (void* block : blocks) memory.release(block, kBlock);
  CHECK(!memory.at_limit());
  CHECK(fill(Need::growth, 1) == 1);
}

TEST_CASE("as arrays move they gather in low chunks, and high ones go back") {
  ArrayMemory memory({});
  std::vector<void*> large;
  for (int i = 0; i < 4000; ++i) large.push_back(memory.allocate(16 * 1024, Need::growth));
  const std::size_t peak = memory.resident_bytes();
  CHECK(peak >= std::size_t{4000} * 16 * 1024);
  std::vector<void*> small;
  for (void* block : large) {  // as a sweep does: the small one first, then the large one goes
    small.push_back(memory.allocate(128, Need::reclaim));
    memory.release(block, 16 * 1024);
  }
  while (memory.resident_bytes() >= peak / 6) std::this_thread::yield();
  for (void* block : small) memory.release(block, 128);
}

TEST_CASE("threads take and release at once") {
  ArrayMemory memory({});
  constexpr std::size_t kThreads = 4;
  std::vector<const char*> faults(kThreads);
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      faults[t] = churn(memory, 50 + t, 20'000, 32 * 1024);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* fault : faults) CHECK_MESSAGE(fault == nullptr, fault);
}

TEST_CASE("a block may be released by another thread than took it") {
  ArrayMemory memory({});
  constexpr int kBlocks = 2000;
  std::vector<std::atomic<void*>> handed(kBlocks);
  std::thread consumer([&] {
    for (std::atomic<void*>& box : handed) {
      void* block = nullptr;
      while ((block = box.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
      memory.release(block, 4096);
    }
  });
  bool zeroed = true;
  for (std::atomic<void*>& box : handed) {
    const Block block = take_block(memory, 4096, 7);
    zeroed = zeroed && block.bytes == 4096;
    box.store(block.words, std::memory_order_release);
  }
  consumer.join();
  CHECK(zeroed);
}
