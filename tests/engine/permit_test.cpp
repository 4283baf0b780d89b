// Permits: 10 million random acquires, renewals and releases, of permits that live, have lapsed, or
// never were, with old readings of the clock, against a list of who counts in which round; and two
// holders around the end of a round in every order of their steps.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "server/engine/permit_entries.hpp"
#include "tests/engine/map_store.hpp"
#include "tests/support/interleavings.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using pail::test::Interleavings;
using pail::test::MapStore;
using pail::test::Random;

namespace {

constexpr KeyHash kKey{7, 1234};
constexpr UtcEpoch kEpoch{1'767'225'600, 12'345'678};

struct Permit {
  Mark mark = 0;
  std::int64_t round = 0;
  std::uint32_t tokens = 0;
};

class Trial {
 public:
  explicit Trial(Random& random)
      : random_(random),
        seconds_(static_cast<std::uint32_t>(random.magnitude(1, kMaxPermitSeconds))),
        rule_(WindowRule::every(seconds_)) {
    limit_.most = static_cast<std::uint32_t>(random.between(1, 20));
    if (random.one_in(2)) {
      limit_.reserve[0] = static_cast<std::uint32_t>(random.below(limit_.most + 1));
    }
    store_.true_now = random.magnitude(1'000'000, kMaxNow);
  }

  const char* step() {
    pause();
    reading_ = store_.true_now;
    if (random_.one_in(4)) reading_ -= std::min(reading_ - 1, random_.below(2 * length()));
    switch (random_.below(4)) {
      case 0:
        return release();
      case 1:
        return renew();
      default:
        return acquire();
    }
  }

 private:
  [[nodiscard]] Ticks length() const { return seconds_ * kTicksPerSecond; }
  [[nodiscard]] std::int64_t round(Ticks at) const {
    return (kEpoch.seconds + static_cast<std::int64_t>((at + kEpoch.fraction) / kTicksPerSecond)) /
           seconds_;
  }
  [[nodiscard]] std::uint64_t out(std::int64_t at_round) const {
    std::uint64_t sum = 0;
    for (const Permit& permit : permits_) {
      if (permit.round == at_round || permit.round == at_round - 1) sum += permit.tokens;
    }
    return sum;
  }

  void pause() {
    if (random_.one_in(8)) store_.true_now += random_.magnitude(1, length());
    if (random_.one_in(100)) store_.true_now += 2 * length();
    store_.true_now = std::min(store_.true_now, kMaxNow);
    // Who is forgotten here cannot be heard of again, but for a release that comes too late.
    const std::int64_t now = round(store_.true_now);
    std::erase_if(permits_, [&](const Permit& permit) {
      if (permit.round < now - 5) lapsed_ = permit;
      return permit.round < now - 5;
    });
  }

  const char* acquire() {
    Ask ask;
    ask.cost = static_cast<std::uint32_t>(random_.between(1, std::min(3U, limit_.most)));
    ask.priority = static_cast<std::uint8_t>(random_.below(2));
    if (never_fits(limit_, ask)) return nullptr;
    const auto answer =
        decide_paired<PermitUse>(store_, limit_, rule_, kEpoch, kKey, ask, reading_, Mode::take);
    const std::int64_t now = round(answer.at);
    if (now < newest_) return "acquired in a round that a later one has closed";
    newest_ = now;
    const bool fits = out(now) + ask.cost <= limit_.most_for(ask.priority);
    const bool is_admitted = answer.step.verdict == Verdict::admitted;
    if (fits != is_admitted) return is_admitted ? "over-admitted" : "refused what fits";
    if (is_admitted) {
      permits_.push_back({answer.mark, now, ask.cost});
      return nullptr;
    }
    // If nobody does anything, the wait is enough and a tick less is not.
    const auto fits_after = [&](Ticks wait) {
      return out(round(answer.at + wait)) + ask.cost <= limit_.most_for(ask.priority);
    };
    if (answer.at + answer.wait > kMaxNow) return nullptr;
    return fits_after(answer.wait) && !fits_after(answer.wait - 1) ? nullptr : "wrong wait";
  }

  // Mostly one that is out; sometimes one that lapsed, or was never given.
  const char* release() {
    if (permits_.empty() || random_.one_in(16)) {
      const Mark mark =
          random_.one_in(2) ? lapsed_.mark : static_cast<Mark>(random_.below(1 << 30));
      if (is_known(mark)) return nullptr;
      return release_permit(store_, rule_, kEpoch, kKey, mark, 1, reading_) ? "released nobody's"
                                                                            : nullptr;
    }
    const std::size_t which = random_.below(permits_.size());
    const Permit permit = permits_[which];
    const bool was_there =
        release_permit(store_, rule_, kEpoch, kKey, permit.mark, permit.tokens, reading_);
    // One that has lapsed is left alone: whoever has an old reading still counts it.
    if (!was_there) {
      return permit.round >= round(store_.true_now) - 1 ? "not released" : nullptr;
    }
    lapsed_ = permit;
    permits_[which] = permits_.back();
    permits_.pop_back();
    return nullptr;
  }

  const char* renew() {
    if (permits_.empty() || random_.one_in(8)) {  // one that is no more; nothing may come of it
      if (is_known(lapsed_.mark)) return nullptr;
      const auto renewed = renew_permit(store_, rule_, kEpoch, kKey, lapsed_.mark, 1, reading_);
      return renewed.fate == PermitFate::lapsed ? nullptr : "renewed nobody's";
    }
    Permit& permit = permits_[random_.below(permits_.size())];
    const RenewedPermit renewed =
        renew_permit(store_, rule_, kEpoch, kKey, permit.mark, permit.tokens, reading_);
    if (renewed.fate == PermitFate::full) return "full";
    if (renewed.fate == PermitFate::lapsed) {
      return permit.round >= round(store_.true_now) - 1 ? "a live permit was not renewed" : nullptr;
    }
    permit.mark = renewed.mark;
    // Its round is the one whose entry ends with the mark: this round's, or an older reading's.
    for (std::int64_t at = permit.round; at <= round(store_.true_now); ++at) {
      const Ticks end =
          static_cast<Ticks>((at + 2) * std::int64_t{seconds_} - kEpoch.seconds) * kTicksPerSecond -
          kEpoch.fraction;
      if (mark_of(end) == renewed.mark) {
        permit.round = at;
        newest_ = std::max(newest_, at);
        return nullptr;
      }
    }
    return "renewed into no round";
  }

  [[nodiscard]] bool is_known(Mark mark) const {
    for (const Permit& permit : permits_) {
      if (permit.mark == mark) return true;
    }
    return false;
  }

  Random& random_;
  std::uint32_t seconds_;
  WindowRule rule_;
  CountedLimit limit_;
  MapStore store_;
  Ticks reading_ = 0;
  std::vector<Permit> permits_;
  Permit lapsed_;
  std::int64_t newest_ = 0;
};

// A store whose every use is a step that others may come before.
class SteppedStore {
 public:
  SteppedStore(MapStore& store, Interleavings& orders) : store_(store), orders_(orders) {}

  template <class Decide>
  Outcome update(KeyHash hash, Access access, Ticks now, Decide&& decide) {
    orders_.step();
    return store_.update(hash, access, now, decide);
  }
  Ticks fresh(Ticks at) {
    orders_.step();
    return store_.fresh(at);
  }

 private:
  MapStore& store_;
  Interleavings& orders_;
};

constexpr Ticks kTtl = 10 * kTicksPerSecond;
const WindowRule kRounds = WindowRule::every(10);
// The last tick of a round, and the first of the next.
constexpr Ticks kLast = 100 * kTicksPerSecond - kEpoch.fraction - 1;
constexpr Ticks kFirst = kLast + 1;

}  // namespace

TEST_CASE("10 million random acquires, renewals and releases agree with a list") {
  constexpr int kPerTrial = 1000;
  const int all = pail::test::operations(10'000'000);
  Random random(25);
  for (int done = 0; done < all; done += kPerTrial) {
    Trial trial(random);
    for (int i = 0; i < kPerTrial; ++i) {
      if (const char* fault = trial.step()) FAIL("operation ", done + i, ": ", std::string(fault));
    }
  }
}

TEST_CASE("one permit, two shards around the end of a round: exactly one is admitted, always") {
  for (const Ticks first_reading : {kLast, kFirst}) {
    MapStore store;
    Interleavings orders;
    int admitted = 0;
    const auto acquire = [&](Ticks reading) {
      SteppedStore stepped(store, orders);
      const auto answer = decide_paired<PermitUse>(stepped, CountedLimit{1, {}}, kRounds, kEpoch,
                                                   kKey, {}, reading, Mode::take);
      admitted += answer.step.verdict == Verdict::admitted;
    };
    const std::size_t count = orders.explore(
        [&] {
          store = {};
          store.true_now = kFirst;
          admitted = 0;
          return std::vector<Interleavings::Task>{[&] { acquire(first_reading); },
                                                  [&] { acquire(kFirst); }};
        },
        [&] { CHECK(admitted == 1); });
    CHECK(count >= 6);
  }
}

TEST_CASE("a permit is renewed across the end of a round while another is asked for: never two") {
  MapStore store;
  Interleavings orders;
  Mark mark = 0;
  RenewedPermit renewed;
  bool is_other_admitted = false;
  for (const Ticks reading : {kLast, kFirst}) {
    orders.explore(
        [&] {
          store = {};
          store.true_now = kFirst;
          mark = decide_paired<PermitUse>(store, CountedLimit{1, {}}, kRounds, kEpoch, kKey, {},
                                          kLast, Mode::take)
                     .mark;
          return std::vector<Interleavings::Task>{
              [&] {
                SteppedStore stepped(store, orders);
                renewed = renew_permit(stepped, kRounds, kEpoch, kKey, mark, 1, kFirst);
              },
              [&] {
                SteppedStore stepped(store, orders);
                is_other_admitted = decide_paired<PermitUse>(stepped, CountedLimit{1, {}}, kRounds,
                                                             kEpoch, kKey, {}, reading, Mode::take)
                                        .step.verdict == Verdict::admitted;
              }};
        },
        [&] {
          CHECK(renewed.fate == PermitFate::kept);
          CHECK_FALSE(is_other_admitted);
        });
  }
}

TEST_CASE("what a crashed holder had is back within two ttls, exactly that") {
  MapStore store;
  const CountedLimit limit{10, {}};
  const auto acquired = [&](Ticks now) {
    store.true_now = now;
    int count = 0;
    for (int i = 0; i < 30; ++i) {
      count += decide_paired<PermitUse>(store, limit, kRounds, kEpoch, kKey, {}, now, Mode::take)
                   .step.verdict == Verdict::admitted;
    }
    return count;
  };
  CHECK(acquired(kFirst + 1) == 10);
  CHECK(acquired(kFirst + kTtl) == 0);
  CHECK(acquired(kFirst + 2 * kTtl - 1) == 0);
  CHECK(acquired(kFirst + 2 * kTtl) == 10);
}

TEST_CASE("a release after its round is ignored") {
  MapStore store;
  const CountedLimit limit{1, {}};
  const auto acquire = [&](Ticks now) {
    store.true_now = now;
    return decide_paired<PermitUse>(store, limit, kRounds, kEpoch, kKey, {}, now, Mode::take);
  };
  const Mark late = acquire(kFirst).mark;
  const Ticks now = kFirst + 2 * kTtl;
  CHECK(acquire(now).step.verdict == Verdict::admitted);
  CHECK_FALSE(release_permit(store, kRounds, kEpoch, kKey, late, 1, now));
  CHECK(acquire(now).step.verdict == Verdict::denied);
}
