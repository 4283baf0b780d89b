// The request path allocates nothing. Method: count every call of operator new on this thread.
#include <doctest/doctest.h>

#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/engine/engine_fixture.hpp"

namespace {

thread_local std::size_t allocations = 0;

void* allocate(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined, or GCC takes the pairs of malloc and delete that it then sees for mistakes.
[[gnu::noinline]] void* operator new(std::size_t size) {
  return allocate(size);
}
[[gnu::noinline]] void* operator new[](std::size_t size) {
  return allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

using namespace pail::engine;
using namespace pail::test;

TEST_CASE("deciding allocates nothing, whatever the verdict") {
  Engine engine(Options{.policies = {{"a", 1, {1'000'000'000, 5, 20}}}});
  const auto worker = engine.enroll();
  std::vector<std::string> keys;
  for (int i = 0; i < 500; ++i) keys.push_back(std::string(64, 'k') + std::to_string(i));
  std::vector<Request> requests;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto cost = static_cast<std::uint32_t>(i % 30);  // bad, admitted, denied and never
    const auto policy = static_cast<std::uint32_t>(i % 3);
    const Rate rate{1'000'000'000, 1, static_cast<std::uint32_t>(i % 40)};
    requests.push_back(policy == 0 ? take(keys[i], rate, cost) : take(keys[i], policy, cost));
    requests.back().action = static_cast<Action>(i % 5 % 3);
  }
  std::vector<Decision> decisions(requests.size());
  const std::size_t before = allocations;
  worker->decide(requests, kStart, decisions);
  worker->decide(requests, kStart, decisions);
  worker->end_turn(kStart);
  CHECK(allocations == before);
  ::operator delete(::operator new(1));  // the counter counts
  CHECK(allocations != before);
}
