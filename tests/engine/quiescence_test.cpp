// When memory may be freed: never while a thread that was online at the unlinking has not been
// quiescent since. Sequential here; the schedules are the model's (tests/model), the races TSan's.
#include "server/engine/quiescence.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "server/engine/table_traits.hpp"

using namespace pail::engine;

namespace {
struct Nothing {};
using Threads = Quiescence<LiveTraits, Nothing>;
}  // namespace

TEST_CASE("an object is free when every online thread has been quiescent after its stamp") {
  Threads threads;
  auto& reader = threads.enroll();
  auto& writer = threads.enroll();
  threads.online(reader);
  threads.online(writer);
  const std::uint64_t stamp = threads.stamp();
  CHECK(threads.horizon() <= stamp);
  threads.quiesce(writer);
  CHECK(threads.horizon() <= stamp);
  threads.quiesce(reader);
  CHECK(threads.horizon() > stamp);
  CHECK(threads.horizon() <= threads.stamp());
}

TEST_CASE("an offline thread holds up nobody, and counts again from online") {
  Threads threads;
  auto& sleeper = threads.enroll();
  auto& writer = threads.enroll();
  threads.online(sleeper);
  threads.online(writer);
  const std::uint64_t first = threads.stamp();
  threads.offline(sleeper);
  threads.quiesce(writer);
  CHECK(threads.horizon() > first);
  threads.online(sleeper);
  const std::uint64_t second = threads.stamp();
  threads.quiesce(writer);
  CHECK(threads.horizon() > first);
  CHECK(threads.horizon() <= second);
  threads.leave(sleeper);
  CHECK(threads.horizon() > second);
}

TEST_CASE("seats are used again, and there are 256") {
  Threads threads;
  std::vector<Threads::Seat*> seats;
  for (std::size_t i = 0; i < Threads::kMaxSeats; ++i) seats.push_back(&threads.enroll());
  CHECK_THROWS_AS(static_cast<void>(threads.enroll()), std::length_error);
  threads.leave(*seats[17]);
  CHECK(&threads.enroll() == seats[17]);
}
