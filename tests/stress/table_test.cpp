// The growing table under real threads: takes, growth, sweeps, forced migrations and reclamation on
// the same few segments. tests/model goes through the schedules; here are the orderings, which the
// thread sanitizer watches, and quantity.
//
// The table is the real one but for its sizes, which make it migrate all the time, and its memory,
// which comes from the heap: so a touch of a freed array is one that the sanitizers know.
#include "server/engine/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using pail::test::operations;
using pail::test::Random;

namespace {

constexpr std::size_t kThreads = 4;

// The limit of the running test; arrays in use are counted over all tables, of which there is one.
class HeapMemory {
 public:
  explicit HeapMemory(const TableOptions& options) : limit_(options.memory_limit_bytes) {}

  void* allocate(std::size_t bytes, Need need) noexcept {
    const std::size_t before = used_.fetch_add(bytes, std::memory_order_relaxed);
    const std::size_t most = need == Need::growth ? limit_ - limit_ / 4 : limit_;
    void* memory = nullptr;
    if (need == Need::copy || before + bytes <= most) {
      memory = std::aligned_alloc(kCacheLineBytes, bytes);
    }
    if (memory == nullptr) {
      used_.fetch_sub(bytes, std::memory_order_relaxed);
      return nullptr;
    }
    std::memset(memory, 0, bytes);
    return memory;
  }
  void release(void* array, std::size_t bytes) noexcept {
    std::free(array);
    used_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t resident_bytes() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t limit_bytes() const noexcept { return limit_; }
  [[nodiscard]] bool at_limit() const noexcept { return resident_bytes() >= limit_ - limit_ / 4; }

 private:
  std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

struct SmallSizing : LiveSizing {
  static constexpr std::uint32_t kHelpSlots = 3;
  static constexpr std::uint32_t kSampleSlots = 16;
  static constexpr std::uint32_t kGlanceSlots = 8;
};

struct StressTraits : LiveTraits {
  using Memory = HeapMemory;
  using Sizing = SmallSizing;
  static constexpr std::size_t kMaxThreads = 16;
};

using SmallTable = Table<StressTraits>;

KeyHash hash_of(std::uint64_t key) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  };
  const std::uint64_t high = mix(key * 0x9E3779B97F4A7C15 + 1);
  return {high, mix(high)};
}

// A bucket of `burst` tokens, each `per_token` ticks.
struct Bucket {
  Ticks per_token = 1000;
  Ticks burst = 8;
};

struct Taken {
  Outcome outcome = Outcome::unchanged;
  Ticks at = 0;  // the time that it was decided on
};

Taken take(SmallTable& table, SmallTable::Participant& me, std::uint64_t key, const Bucket& bucket,
           Ticks clock) {
  Taken taken;
  taken.outcome = table.update(me, hash_of(key), Access::insert, clock,
                               [&](Word word, Ticks now) -> std::optional<Word> {
                                 taken.at = now;
                                 const Word next = std::max(word, now) + bucket.per_token;
                                 if (next > now + bucket.burst * bucket.per_token)
                                   return std::nullopt;
                                 return next;
                               });
  return taken;
}

// What a thread does besides: migrations of every kind, and moments at which it holds nothing.
void disturb(SmallTable& table, SmallTable::Participant& me, Random& random, Ticks clock) {
  const std::size_t segment = random.below(table.segments());
  switch (random.below(8)) {
    case 0:
      table.begin_migration(me, segment, clock);
      break;
    case 1:
      table.help_migration(me, segment, static_cast<std::uint32_t>(random.between(1, 40)));
      break;
    case 2:
      table.sweep_segment(me, segment, clock);
      break;
    case 3:
      me.offline();
      me.online();
      break;
    default:
      me.quiesce();
  }
}

// Each runs body(thread); they begin together.
template <class Body>
void run_threads(Body body) {
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      body(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("by a clock that stands, each key admits exactly its budget, whatever migrates") {
  constexpr Ticks kNow = 1'000'000;
  for (const unsigned segment_bits : {0U, 3U}) {
    SmallTable table({.segment_bits = segment_bits});
    constexpr std::uint64_t kKeys = 300;
    const Bucket bucket{.per_token = 1000, .burst = 50};
    std::vector<std::vector<std::uint64_t>> admitted(kThreads, std::vector<std::uint64_t>(kKeys));
    run_threads([&](std::size_t t) {
      Random random(90 + t);
      auto me = std::make_unique<SmallTable::Participant>(table.enroll());
      for (int i = 0; i < operations(400'000); ++i) {
        // Keys come one after the other, so that the table grows all the while.
        const std::uint64_t known = 1 + static_cast<std::uint64_t>(i) * kKeys /
                                            static_cast<std::uint64_t>(operations(400'000));
        const std::uint64_t key = random.below(known);
        if (take(table, *me, key, bucket, kNow).outcome == Outcome::written) ++admitted[t][key];
        if (random.one_in(8)) disturb(table, *me, random, kNow);
        if (random.one_in(10'000)) {
          me.reset();
          me = std::make_unique<SmallTable::Participant>(table.enroll());
        }
      }
    });
    SmallTable::Participant me = table.enroll();
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      std::uint64_t sum = 0;
      for (const auto& counts : admitted) sum += counts[key];
      while (take(table, me, key, bucket, kNow).outcome == Outcome::written) ++sum;
      CHECK_MESSAGE(sum == bucket.burst, "key " << key);
    }
    CHECK(table.check_invariants() == "");
    CHECK(table.stats().migrations_finished > 100);
  }
}

TEST_CASE("by clocks that lag, no key admits more than its bound over any interval") {
  SmallTable table({.segment_bits = 1});
  const Bucket bucket;
  constexpr Ticks kStart = 1'000'000;
  std::atomic<Ticks> clock{kStart};
  struct Admission {
    std::uint64_t key;
    Ticks at;
  };
  std::vector<std::vector<Admission>> admitted(kThreads);
  run_threads([&](std::size_t t) {
    Random random(100 + t);
    SmallTable::Participant me = table.enroll();
    std::uint64_t busy = 0;  // keys are taken from for a while, and then are idle, and dropped
    for (int turn = 0; turn < operations(60'000); ++turn) {
      const Ticks now = clock;  // and others may be far ahead before it is used
      if (turn % 200 == 0) busy = random.below(60);
      for (int i = 0; i < 8; ++i) {
        const std::uint64_t key = busy + random.below(4);
        const Taken taken = take(table, me, key, bucket, now);
        if (taken.outcome == Outcome::written) admitted[t].push_back({key, taken.at});
      }
      disturb(table, me, random, now);
      clock += random.between(1, 500);
    }
  });

  std::vector<Admission> all;
  for (const auto& part : admitted) all.insert(all.end(), part.begin(), part.end());
  std::stable_sort(all.begin(), all.end(),
                   [](const Admission& a, const Admission& b) { return a.at < b.at; });
  // By the times of the decisions the bound is exact: each of them added to a word that was not
  // below the first one's time, and found it not above its own time and the burst.
  std::vector<Ticks> words(64);
  std::size_t above = 0;
  for (const Admission& admission : all) {
    Ticks& word = words[admission.key];
    word = std::max(word, admission.at) + bucket.per_token;
    above += word > admission.at + bucket.burst * bucket.per_token ? 1U : 0U;
  }
  CHECK(above == 0);
  CHECK(table.check_invariants() == "");
  const TableStats stats = table.stats();
  CHECK(stats.migrations_finished > 100);
  CHECK(clock - kStart > 100 * bucket.burst * bucket.per_token);
  MESSAGE(all.size() << " admissions, " << stats.migrations_finished << " migrations");
}

TEST_CASE(
    "at the memory limit no key that has an entry is refused, and none gets a second budget") {
  constexpr Ticks kNow = 1'000'000;
  SmallTable table({.segment_bits = 2, .memory_limit_bytes = 64 * 1024});
  const Bucket bucket{.per_token = 1000, .burst = 50};
  constexpr std::uint64_t kKnown = 200;
  {
    SmallTable::Participant me = table.enroll();
    for (std::uint64_t key = 0; key < kKnown; ++key) {
      REQUIRE(take(table, me, key, bucket, kNow).outcome == Outcome::written);
    }
  }
  std::atomic<std::uint64_t> admitted{kKnown}, refused_known{0}, refused_new{0};
  run_threads([&](std::size_t t) {
    Random random(110 + t);
    SmallTable::Participant me = table.enroll();
    for (int i = 0; i < operations(400'000); ++i) {
      const bool is_known = random.one_in(2);
      const std::uint64_t key = is_known ? random.below(kKnown) : random.between(1'000, 100'000);
      const Outcome outcome = take(table, me, key, bucket, kNow).outcome;
      if (is_known && outcome == Outcome::written) ++admitted;
      if (outcome == Outcome::full) ++(is_known ? refused_known : refused_new);
      if (random.one_in(8)) disturb(table, me, random, kNow);
    }
  });
  SmallTable::Participant me = table.enroll();
  for (std::uint64_t key = 0; key < kKnown; ++key) {
    while (take(table, me, key, bucket, kNow).outcome == Outcome::written) ++admitted;
  }
  CHECK(admitted == kKnown * bucket.burst);
  CHECK(refused_known == 0);
  CHECK(refused_new > 100);
  CHECK(table.check_invariants() == "");
}
