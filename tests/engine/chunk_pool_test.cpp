// The pool of chunks: one user a chunk, spare ones within their bounds, the limit kept. Method: use
// it as the arenas do, and wait for what its thread does.
#include "server/engine/chunk_pool.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"

using namespace pail::engine;
using pail::test::Random;

namespace {

constexpr std::size_t kChunk = ChunkPool::kChunkBytes;

// As many spare ones as the thread leaves alone.
bool is_settled(const ChunkPool& pool) {
  const std::size_t wanted =
      std::min(ChunkPool::kMostSpares, 1 + pool.resident_bytes() / kChunk / 64);
  return pool.spares() >= wanted && pool.spares() <= wanted + 1;
}

void await_settled(const ChunkPool& pool) {
  while (!is_settled(pool)) std::this_thread::yield();
}

std::uint64_t& first_word(const ChunkPool& pool, std::size_t chunk) {
  return *reinterpret_cast<std::uint64_t*>(pool.address(chunk));
}

}  // namespace

TEST_CASE("a pool that nobody uses holds nothing") {
  ChunkPool pool(std::size_t{1} << 30);
  CHECK(pool.resident_bytes() == 0);
  CHECK(pool.spares() == 0);
  CHECK(!pool.at_limit());
}

TEST_CASE("a few chunks are kept ready, and what is closed goes back but for those") {
  ChunkPool pool(std::size_t{1} << 30);
  std::set<std::size_t> chunks;
  for (int i = 0; i < 40; ++i) {
    const auto chunk = pool.open(3, Need::growth);
    REQUIRE(chunk.has_value());
    REQUIRE(chunks.insert(*chunk).second);
    CHECK(pool.user_of(*chunk) == 3);
    CHECK(pool.chunk_of(pool.address(*chunk) + kChunk - 1) == *chunk);
    first_word(pool, *chunk) = *chunk + 1;
  }
  await_settled(pool);
  CHECK(pool.resident_bytes() == (40 + pool.spares()) * kChunk);
  for (const std::size_t chunk : chunks) {
    CHECK(first_word(pool, chunk) == chunk + 1);
    pool.close(chunk);
  }
  while (pool.resident_bytes() > 2 * kChunk) std::this_thread::yield();
  CHECK(is_settled(pool));
  CHECK(pool.open(0, Need::growth).has_value());
}

TEST_CASE("the limit counts spare chunks, and gives them to those who need one") {
  constexpr std::size_t kChunks = 32;  // of which the reserve is one
  ChunkPool pool(kChunks * kChunk);
  std::vector<std::size_t> chunks;
  while (!pool.at_limit()) {
    if (const auto chunk = pool.open(1, Need::growth)) chunks.push_back(*chunk);
    CHECK(pool.resident_bytes() <= kChunks * kChunk);
  }
  CHECK(!pool.open(1, Need::growth));
  const auto reclaim = pool.open(1, Need::reclaim);  // into the reserve
  REQUIRE(reclaim.has_value());
  CHECK(!pool.open(1, Need::reclaim));
  const auto copy = pool.open(1, Need::copy);  // beyond
  REQUIRE(copy.has_value());
  CHECK(pool.resident_bytes() == (kChunks + 1) * kChunk);
  pool.close(*copy);
  pool.close(*reclaim);
  pool.close(chunks.back());
  // Spare or given back, one of the two or on the way from the one to the other.
  while (!pool.open(1, Need::growth)) std::this_thread::yield();
}

TEST_CASE("threads open and close at once, and no chunk has two users") {
  ChunkPool pool(std::size_t{1} << 30);
  constexpr std::size_t kThreads = 4;
  std::vector<int> faults(kThreads, 0);
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(90 + t);
      std::vector<std::size_t> mine;
      start.arrive_and_wait();
      for (int step = 0; step < 1000; ++step) {
        if (mine.size() < 12 && !random.one_in(3)) {
          const auto chunk = pool.open(static_cast<std::uint8_t>(t), Need::growth);
          if (!chunk) {
            ++faults[t];
            continue;
          }
          first_word(pool, *chunk) = t;
          mine.push_back(*chunk);
        } else if (!mine.empty()) {
          std::swap(mine[random.below(mine.size())], mine.back());
          if (first_word(pool, mine.back()) != t || pool.user_of(mine.back()) != t) ++faults[t];
          pool.close(mine.back());
          mine.pop_back();
        }
      }
      for (const std::size_t chunk : mine) pool.close(chunk);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : faults) CHECK(count == 0);
  while (pool.resident_bytes() > 2 * kChunk) std::this_thread::yield();
}
