// Concern: reply bytes leave in the order in which they came, whatever is sent when, and the pool
// gets all its blocks back. Method: random operations against a string that remembers everything.
#include "server/frontend/reply_queue.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/support/random.hpp"

namespace pail::frontend {
namespace {

struct Memory {
  explicit Memory(std::size_t blocks) : bytes(blocks * ReplyBlock::kSizeBytes) {}
  std::vector<std::byte> bytes;
};

TEST_CASE("a queue is a queue of bytes") {
  test::Random random;
  Memory memory(64);
  ReplyPool pool(memory.bytes);
  const std::size_t all = pool.free_bytes();
  std::vector<ReplyQueue> queues(4);
  std::vector<std::deque<std::byte>> models(4);
  for (int step = 0; step < 200'000; ++step) {
    const std::size_t which = random.below(queues.size());
    ReplyQueue& queue = queues[which];
    std::deque<std::byte>& model = models[which];
    if (random.one_in(2)) {
      const std::size_t size = random.magnitude(1, ReplyBlock::kRoomBytes);
      const auto room = queue.room(size, pool);
      if (room.empty()) {
        CHECK(pool.free_bytes() == 0);
        queue.clear(pool);
        model.clear();
        continue;
      }
      REQUIRE(room.size() >= size);
      for (std::size_t i = 0; i < size; ++i) {
        room[i] = static_cast<std::byte>(random.next());
        model.push_back(room[i]);
      }
      queue.append(size);
    } else if (const auto front = queue.front(); !front.empty()) {
      const std::size_t size = random.between(1, front.size());
      REQUIRE(std::equal(front.begin(), front.begin() + static_cast<std::ptrdiff_t>(size),
                         model.begin()));
      queue.sent(size, pool);
      model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(size));
    }
    REQUIRE(queue.pending_bytes() == model.size());
    REQUIRE(queue.front().empty() == model.empty());
  }
  for (ReplyQueue& queue : queues) queue.clear(pool);
  CHECK(pool.free_bytes() == all);
}

TEST_CASE("bytes that are being sent stay where they are while more are appended") {
  Memory memory(2);
  ReplyPool pool(memory.bytes);
  ReplyQueue queue;
  queue.room(100, pool)[0] = std::byte{42};
  queue.append(100);
  const auto in_flight = queue.front();
  for (int i = 0; i < 100; ++i) {
    REQUIRE_FALSE(queue.room(300, pool).empty());
    queue.append(300);
  }
  CHECK(queue.front().data() == in_flight.data());
  CHECK(in_flight[0] == std::byte{42});
  queue.clear(pool);
}

TEST_CASE("an empty pool is said, and lends again what it gets back") {
  Memory memory(1);
  ReplyPool pool(memory.bytes);
  ReplyQueue first;
  ReplyQueue second;
  CHECK_FALSE(first.room(1, pool).empty());
  first.append(1);
  CHECK(second.room(1, pool).empty());
  first.sent(1, pool);
  CHECK_FALSE(second.room(1, pool).empty());
  second.clear(pool);
}

}  // namespace
}  // namespace pail::frontend
