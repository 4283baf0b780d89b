// The table beside a naive one: a map from key to word that never moves, never forgets and needs no
// room. One thread here; schedules are tests/model's business, races tests/stress's.
//
// What must agree is the decision: the larger of word and now, since a word at or below now is idle
// and may be gone.
#include "server/engine/table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/support/random.hpp"

using namespace pail::engine;
using pail::test::Random;

namespace {

using KeyTable = Table<LiveTraits>;

constexpr Ticks kSecond = ticks_from_ns(1'000'000'000);
constexpr Ticks kStart = 1000 * kSecond;

KeyHash hash_of(std::uint64_t key) {
  Random random(0);  // the seed is the secret
  const std::uint64_t secret = random.next();
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
  };
  const std::uint64_t high = mix(secret + key * 0x9E3779B97F4A7C15);
  return {high, mix(high ^ secret)};
}

// The table and the naive one, asked the same.
class Pair {
 public:
  explicit Pair(const TableOptions& options) : table(options), me(table.enroll()) {}

  // A take of `debt` ticks from a bucket that may owe `most`. Returns whether it was admitted.
  bool take(std::uint64_t key, Ticks clock, Ticks debt, Ticks most) {
    Word& naive = words_[key];
    bool agreed = false, admitted = false;
    const Outcome outcome = table.update(
        me, hash_of(key), Access::insert, clock, [&](Word word, Ticks now) -> std::optional<Word> {
          agreed = std::max(word, now) == std::max(naive, now) && now == clock;
          admitted = std::max(word, now) + debt <= now + most;
          if (!admitted) return std::nullopt;
          return std::max(word, now) + debt;
        });
    REQUIRE(agreed);
    if (outcome == Outcome::full) return false;
    REQUIRE(outcome == (admitted ? Outcome::written : Outcome::unchanged));
    if (admitted) naive = std::max(naive, clock) + debt;
    return admitted;
  }

  void reset(std::uint64_t key, Ticks clock) {
    Word& naive = words_[key];
    table.update(me, hash_of(key), Access::find, clock,
                 [&](Word word, Ticks now) -> std::optional<Word> {
                   REQUIRE(std::max(word, now) == std::max(naive, now));
                   if (word <= now) return std::nullopt;
                   return now;
                 });
    if (naive > clock) naive = clock;
  }

  void peek(std::uint64_t key, Ticks clock) {
    const Word naive = words_.contains(key) ? words_[key] : 0;
    const Outcome outcome = table.update(me, hash_of(key), Access::find, clock,
                                         [&](Word word, Ticks now) -> std::optional<Word> {
                                           REQUIRE(std::max(word, now) == std::max(naive, now));
                                           return std::nullopt;
                                         });
    REQUIRE(outcome == Outcome::unchanged);
  }

  void check() const {
    const std::string fault = table.check_invariants();
    CHECK_MESSAGE(fault.empty(), fault);
  }

  KeyTable table;
  KeyTable::Participant me;

 private:
  std::unordered_map<std::uint64_t, Word> words_;
};

std::optional<Word> nothing(Word, Ticks) {
  return std::nullopt;
}

}  // namespace

TEST_CASE("days of random traffic are decided as by a table that never moves") {
  for (const unsigned bits : {0U, 3U, 8U}) {
    CAPTURE(bits);
    Random random(60 + bits);
    Pair pair({.segment_bits = bits});
    Ticks now = kStart;
    std::uint64_t newest = 0;
    for (int step = 0; step < 400'000; ++step) {
      // Old favourites, recent keys, and a stream of new ones that stops now and then.
      const std::uint64_t key = random.one_in(4)           ? random.below(50)
                                : (step / 50'000) % 2 == 0 ? newest++
                                                           : random.below(newest + 1);
      const Ticks debt = random.magnitude(1, 3600 * kSecond);
      switch (random.below(16)) {
        case 0:
          pair.peek(key, now);
          break;
        case 1:
          pair.reset(key, now);
          break;
        default:
          pair.take(key, now, debt, debt * random.between(1, 20));
      }
      if (random.one_in(8)) now += random.below(2 * kSecond);
      if (random.one_in(1000)) now += random.magnitude(1, 7200 * kSecond);
      if (random.one_in(16)) pair.table.sweep(pair.me, now);
      if (random.one_in(16)) pair.me.quiesce();
      if (random.one_in(100'000)) pair.check();
    }
    pair.check();
    const TableStats stats = pair.table.stats();
    CHECK(stats.migrations_finished > 100);
    CHECK(now - kStart > 24 * 3600 * kSecond);
  }
}

TEST_CASE("migration one slot at a time, with every operation in between") {
  Random random(70);
  for (int round = 0; round < 200; ++round) {
    Pair pair({.segment_bits = 0});
    Ticks now = kStart;
    const std::uint64_t keys = random.between(1, 60);
    for (int step = 0; step < 300; ++step) {
      pair.take(random.below(keys), now, kSecond, 5 * kSecond);
      if (random.one_in(10)) pair.reset(random.below(keys), now);
      if (random.one_in(10)) pair.peek(random.below(keys), now);
      if (random.one_in(20)) pair.table.begin_migration(pair.me, 0, now);
      if (random.one_in(2)) pair.table.help_migration(pair.me, 0, 1);
      if (random.one_in(5)) pair.me.quiesce();
      now += random.below(kSecond / 4);
    }
    pair.check();
  }
}

TEST_CASE("what only looks or only lowers makes no entry, and neither does a refusal") {
  Pair pair({});
  for (std::uint64_t key = 0; key < 1000; ++key) {
    pair.peek(key, kStart);
    pair.reset(key, kStart);
    CHECK(!pair.take(key, kStart, 2, 1));
    const auto lower = [](Word, Ticks now) -> std::optional<Word> { return now; };
    CHECK(pair.table.update(pair.me, hash_of(key), Access::find, kStart, lower) ==
          Outcome::unchanged);
  }
  CHECK(pair.table.stats().entries == 0);
  CHECK(pair.table.stats().arrays == 0);
}

TEST_CASE("the reserved fingerprints are keys like others") {
  Pair pair({.segment_bits = 4});
  const std::uint64_t all = ~std::uint64_t{0};
  for (const KeyHash hash : {KeyHash{0, 0}, KeyHash{0, all}, KeyHash{all, 0}, KeyHash{all, all}}) {
    Word seen = 1;
    const auto raise = [&](Word word, Ticks now) -> std::optional<Word> {
      seen = word;
      return now + kSecond;
    };
    CHECK(pair.table.update(pair.me, hash, Access::insert, kStart, raise) == Outcome::written);
    CHECK(seen == 0);
    CHECK(pair.table.update(pair.me, hash, Access::insert, kStart, raise) == Outcome::written);
    CHECK(seen == kStart + kSecond);
  }
  pair.check();
}

TEST_CASE("a clock that is a callable is asked after the word was loaded") {
  Pair pair({});
  pair.take(1, kStart, kSecond, kSecond);
  int asked = 0;
  const auto clock = [&asked] {
    ++asked;
    return kStart + 5;
  };
  Ticks seen = 0;
  pair.table.update(pair.me, hash_of(1), Access::find, clock, [&](Word, Ticks now) {
    seen = now;
    return nothing(0, now);
  });
  CHECK(asked == 1);
  CHECK(seen == kStart + 5);
}

TEST_CASE("a decision is never before the floor of its array") {
  Pair pair({.segment_bits = 0});
  pair.take(1, kStart, kSecond, kSecond);
  pair.take(2, kStart, 100 * kSecond, 100 * kSecond);
  const Ticks later = kStart + 50 * kSecond;
  CHECK(pair.table.begin_migration(pair.me, 0, later));
  pair.table.help_migration(pair.me, 0, 1000);
  CHECK(pair.table.stats().migrations_finished == 1);
  // Key 1 was idle and is gone; a reading from before that must not see it fresh at its old time.
  for (const std::uint64_t key : {1U, 2U, 3U}) {
    pair.table.update(pair.me, hash_of(key), Access::find, kStart + kSecond / 2,
                      [&](Word word, Ticks now) {
                        CHECK(now == later);
                        CHECK(word == (key == 2 ? kStart + 100 * kSecond : 0));
                        return nothing(word, now);
                      });
  }
}

TEST_CASE("memory follows the live keys up, down and up again") {
  Pair pair({.segment_bits = 10});
  Ticks now = kStart;
  std::size_t peak = 0;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {
      const auto raise = [](Word word, Ticks at) -> std::optional<Word> {
        return std::max(word, at) + 100 * kSecond;
      };
      const std::uint64_t key = static_cast<std::uint64_t>(round) * 10'000'000 + i;
      REQUIRE(pair.table.update(pair.me, hash_of(key), Access::insert, now, raise) ==
              Outcome::written);
      if (i % 64 == 0) pair.me.quiesce();
    }
    peak = std::max(peak, pair.table.stats().resident_bytes);
    CHECK(pair.table.stats().resident_bytes < 1'000'000 * 36);
    now += 200 * kSecond;
    // Two rounds of the sweep: one may find migrations that others began.
    for (int pass = 0; pass < 2; ++pass) {
      now += KeyTable::kSweepTicks;
      while (pair.table.sweep(pair.me, now)) pair.me.quiesce();
    }
    pair.me.quiesce();
    // A thread of the table's own gives back what it does not keep ready.
    while (pair.table.stats().resident_bytes > peak / 4) std::this_thread::yield();
    CHECK(pair.table.stats().entries < 10'000);
    CHECK(pair.table.stats().retired_arrays == 0);
  }
  pair.check();
}

TEST_CASE("at the memory limit new keys are refused, and nothing else changes") {
  Pair pair({.segment_bits = 12, .memory_limit_bytes = std::size_t{8} << 20});
  constexpr Ticks kBudget = 1000 * kSecond;
  const auto raise = [](Word word, Ticks now) -> std::optional<Word> {
    return std::max(word, now) + kBudget;
  };
  // A thousand keys that are limited, then ten times as many fresh ones as fit.
  for (std::uint64_t key = 0; key < 1000; ++key) CHECK(pair.take(key, kStart, kBudget, kBudget));
  std::uint64_t entered = 0, refused = 0;
  for (std::uint64_t i = 0; i < 3'000'000; ++i) {
    const Outcome outcome =
        pair.table.update(pair.me, hash_of(1'000'000 + i), Access::insert, kStart, raise);
    (outcome == Outcome::full ? refused : entered) += 1;
    if (i % 64 == 0) pair.me.quiesce();
    if (i % 1000 == 0) CHECK(!pair.take(i / 1000 % 1000, kStart, 1, kBudget));
  }
  CHECK(entered > 200'000);
  CHECK(refused > 2'000'000);
  const TableStats stats = pair.table.stats();
  CHECK(stats.refused_keys == refused);
  CHECK(stats.resident_bytes <= stats.memory_limit_bytes);
  pair.check();

  // When the flood is idle it makes room, and the limited keys are still what they were.
  const Ticks later = kStart + kBudget + 1;
  entered = 0;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    const Outcome outcome =
        pair.table.update(pair.me, hash_of(9'000'000 + i), Access::insert, later, raise);
    if (outcome == Outcome::written) ++entered;
    if (i % 64 == 0) pair.me.quiesce();
  }
  CHECK(entered == 100'000);
  for (std::uint64_t key = 0; key < 1000; ++key) {
    pair.peek(key, later);
    CHECK(pair.take(key, later, kBudget, kBudget));
    CHECK(!pair.take(key, later, 1, kBudget));
  }
  pair.check();
}

TEST_CASE("a thread that enrolls again finds the table as it was") {
  KeyTable table({.segment_bits = 2});
  for (std::uint64_t key = 0; key < 2000; ++key) {
    KeyTable::Participant visitor = table.enroll();
    const auto raise = [](Word word, Ticks now) -> std::optional<Word> {
      return std::max(word, now) + kSecond;
    };
    CHECK(table.update(visitor, hash_of(key), Access::insert, kStart, raise) == Outcome::written);
    visitor.quiesce();
    visitor.offline();
    visitor.online();
  }
  // An entry that is being moved has two slots.
  KeyTable::Participant last = table.enroll();
  for (std::size_t segment = 0; segment < table.segments(); ++segment) {
    table.help_migration(last, segment, 100'000);
  }
  last.quiesce();
  const TableStats stats = table.stats();
  CHECK(stats.entries == 2000);
  CHECK(stats.retired_arrays <= 1);
  CHECK(table.check_invariants().empty());
}
