// Fixed and sliding windows on their entries, against counts by window number and sums by
// definition: 10 million operations each, with readings of the clock that are up to three windows
// old, reserves, partial asks, peeks, and what is given back.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "server/engine/counted_entries.hpp"
#include "server/engine/fixed_window.hpp"
#include "server/engine/sliding_window.hpp"
#include "tests/engine/map_store.hpp"
#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using pail::test::MapStore;
using pail::test::Random;

namespace {

constexpr KeyHash kKey{7, 1234};
constexpr UtcEpoch kEpoch{1'767'225'600, 12'345'678};

// Counts by number of the window, and nothing else.
class Counts {
 public:
  __extension__ using Wide = unsigned __int128;
  explicit Counts(std::uint32_t seconds) : length_(seconds * kTicksPerSecond) {}

  [[nodiscard]] std::int64_t number(Ticks at) const {
    return static_cast<std::int64_t>((offset() + at) / length_);
  }
  [[nodiscard]] Ticks left(Ticks at) const {
    return length_ - static_cast<Ticks>((offset() + at) % length_);
  }
  [[nodiscard]] std::uint64_t count(std::int64_t window) const {
    const auto found = counts_.find(window);
    return found == counts_.end() ? 0 : found->second;
  }
  void add(std::int64_t window, std::int64_t tokens) {
    counts_[window] += static_cast<std::uint64_t>(tokens);
    while (counts_.size() > 6) counts_.erase(counts_.begin());
  }
  // Whether `tokens` more at that time keep to `most`, by definition.
  [[nodiscard]] bool fixed_fits(Ticks at, std::uint64_t tokens, std::uint64_t most) const {
    return count(number(at)) + tokens <= most;
  }
  [[nodiscard]] bool sliding_fits(Ticks at, std::uint64_t tokens, std::uint64_t most) const {
    const Wide weighted = Wide{count(number(at) - 1)} * left(at);
    return weighted + Wide{count(number(at)) + tokens} * length_ <= Wide{most} * length_;
  }

 private:
  // Ticks of UTC at tick 0, modulo the window.
  [[nodiscard]] Wide offset() const {
    return Wide{static_cast<std::uint64_t>(kEpoch.seconds)} * kTicksPerSecond + kEpoch.fraction;
  }
  Ticks length_;
  std::map<std::int64_t, std::uint64_t> counts_;
};

template <class Use>
struct Kind;
template <>
struct Kind<FixedUse> {
  template <class Store>
  static CountedAnswer<FixedUse> decide(Store& store, const CountedLimit& limit,
                                        const WindowRule& rule, const Ask& ask, Ticks now,
                                        Mode mode) {
    return decide_fixed(store, limit, rule, kEpoch, kKey, ask, now, mode);
  }
  static bool fits(const Counts& model, Ticks at, std::uint64_t tokens, std::uint64_t most) {
    return model.fixed_fits(at, tokens, most);
  }
};
template <>
struct Kind<SlidingUse> {
  template <class Store>
  static CountedAnswer<SlidingUse> decide(Store& store, const CountedLimit& limit,
                                          const WindowRule& rule, const Ask& ask, Ticks now,
                                          Mode mode) {
    return decide_paired<SlidingUse>(store, limit, rule, kEpoch, kKey, ask, now, mode);
  }
  static bool fits(const Counts& model, Ticks at, std::uint64_t tokens, std::uint64_t most) {
    return model.sliding_fits(at, tokens, most);
  }
};

struct Seen {
  std::array<int, 8> verdicts{};
  int rereads = 0;
  int returned = 0;
};

// One key under one limit, moved through time.
template <class Use>
class Trial {
 public:
  Trial(Random& random, Seen& seen)
      : random_(random),
        seen_(seen),
        seconds_(static_cast<std::uint32_t>(random.one_in(2) ? random.between(1, 3)
                                                             : random.magnitude(1, 100'000))),
        rule_(WindowRule::every(seconds_)),
        model_(seconds_) {
    limit_.most = static_cast<std::uint32_t>(random.one_in(8) ? random.magnitude(1, UINT32_MAX)
                                                              : random.between(1, 40));
    if (random.one_in(2)) {
      for (auto& reserve : limit_.reserve) {
        reserve = static_cast<std::uint32_t>(random.between(0, limit_.most));
      }
    }
    store_.true_now = random.magnitude(4 * kMaxWindowSeconds, kMaxNow);
  }

  // What went wrong, or nothing.
  const char* step() {
    pause();
    Ask ask;
    ask.priority = static_cast<std::uint8_t>(random_.below(kPriorities));
    ask.partial = random_.one_in(8);
    ask.cost = random_.one_in(2)
                   ? 1
                   : static_cast<std::uint32_t>(random_.between(1, std::max(1U, limit_.most / 3)));
    if (never_fits(limit_, ask)) return nullptr;
    const Mode mode = random_.one_in(8) ? Mode::peek : Mode::take;
    const Ticks length = seconds_ * kTicksPerSecond;
    Ticks now = store_.true_now;
    if (random_.one_in(4)) now -= std::min(now - 1, random_.below(3 * length));
    const auto answer = Kind<Use>::decide(store_, limit_, rule_, ask, now, mode);
    if (answer.is_full) return "full";
    if (answer.at != now && answer.at != store_.true_now) return "decided on no reading";
    seen_.rereads += answer.at != now;
    ++seen_.verdicts[static_cast<std::size_t>(answer.step.verdict)];
    const std::int64_t window = model_.number(answer.at);
    if (window < newest_) return "decided in a window that a later one has closed";
    if (const char* fault = check(answer, ask)) return fault;
    if (mode == Mode::peek) return nullptr;
    newest_ = window;
    model_.add(window, answer.step.granted);
    if (answer.step.granted != 0) last_ = {answer.entry, answer.mark, window, answer.step.granted};
    return random_.one_in(16) ? give_back() : nullptr;
  }

 private:
  struct Charge {
    KeyHash entry;
    Mark mark = 0;
    std::int64_t window = 0;
    std::uint32_t tokens = 0;
  };

  void pause() {
    const Ticks length = seconds_ * kTicksPerSecond;
    Ticks pause = 0;
    if (random_.one_in(4)) pause = random_.magnitude(1, length);
    if (random_.one_in(64)) pause = random_.between(length, 3 * length);
    if (random_.one_in(8)) pause = model_.left(store_.true_now) - random_.below(2);
    store_.true_now = std::min(store_.true_now + pause, kMaxNow);
  }

  const char* check(const CountedAnswer<Use>& answer, const Ask& ask) {
    const std::uint64_t most = limit_.most - limit_.reserve[ask.priority];
    const auto fits = [&](std::uint64_t tokens, std::uint64_t limit) {
      return Kind<Use>::fits(model_, answer.at, tokens, limit);
    };
    const std::uint32_t least = ask.partial ? 1 : ask.cost;
    if (answer.step.verdict == Verdict::admitted) {
      const std::uint32_t granted = answer.step.granted;
      if (granted < least || granted > ask.cost || !fits(granted, most)) return "over-admitted";
      if (granted < ask.cost && fits(std::uint64_t{granted} + 1, most)) return "granted too little";
      const std::uint64_t left = room(answer.use, limit_.most_for(ask.priority));
      if (left != 0 && !fits(granted + left, most)) return "remaining too high";
      if (fits(granted + left + 1, most)) return "remaining too low";
      return nullptr;
    }
    if (fits(least, most)) return "refused what fits";
    if ((answer.step.verdict == Verdict::shed) != fits(least, limit_.most)) return "shed or denied";
    // Who waits so long is admitted, and a tick earlier is not.
    if (answer.wait == 0) return "told to come again now";
    if (answer.at + answer.wait > kMaxNow) return nullptr;
    const auto at = [&](Ticks wait) {
      return Kind<Use>::fits(model_, answer.at + wait, least, most);
    };
    if (!at(answer.wait)) return "told to come too early";
    if (at(answer.wait - 1)) return "told to come too late";
    return nullptr;
  }

  const char* give_back() {
    if (last_.tokens == 0) return nullptr;
    const auto tokens = static_cast<std::uint32_t>(random_.between(1, last_.tokens));
    const bool is_returned = uncount(store_, last_.entry, last_.mark, tokens, store_.true_now);
    // The entry is another window's as soon as somebody took in a window of the same parity.
    const std::int64_t next_owner = std::is_same_v<Use, FixedUse> ? 1 : 2;
    const bool is_due = newest_ < last_.window + next_owner;
    if (is_due && !is_returned) return "not given back";
    if (is_returned) {
      if (!is_due && !std::is_same_v<Use, FixedUse>) return "given back to another window";
      model_.add(last_.window, -std::int64_t{tokens});
      last_.tokens -= tokens;
      ++seen_.returned;
    }
    return nullptr;
  }

  Random& random_;
  Seen& seen_;
  std::uint32_t seconds_;
  WindowRule rule_;
  CountedLimit limit_;
  Counts model_;
  MapStore store_;
  std::int64_t newest_ = 0;
  Charge last_;
};

template <class Use>
void run(std::uint64_t stream) {
  constexpr int kPerTrial = 1000;
  const int all = pail::test::operations(10'000'000);
  Random random(stream);
  Seen seen;
  for (int done = 0; done < all; done += kPerTrial) {
    Trial<Use> trial(random, seen);
    for (int i = 0; i < kPerTrial; ++i) {
      if (const char* fault = trial.step()) FAIL("operation ", done + i, ": ", std::string(fault));
    }
  }
  for (const Verdict verdict : {Verdict::admitted, Verdict::denied, Verdict::shed}) {
    CHECK(seen.verdicts[static_cast<std::size_t>(verdict)] > all / 100);
  }
  CHECK(seen.rereads > all / 100);
  CHECK(seen.returned > all / 200);
}

}  // namespace

TEST_CASE("fixed windows agree with counts by window") {
  run<FixedUse>(23);
}

TEST_CASE("sliding windows agree with their definition") {
  run<SlidingUse>(24);
}

TEST_CASE("sliding, 100 a minute, 84 before and 36 now, 18 s in: five more and not a sixth") {
  const CountedLimit limit{100, {}};
  SlidingUse use{84, 36, 42 * kTicksPerSecond, 60 * kTicksPerSecond};
  for (int i = 0; i < 5; ++i) {
    CHECK(decide(limit, use, {}).verdict == Verdict::admitted);
    ++use.current;
  }
  CHECK(decide(limit, use, {}).verdict == Verdict::denied);
}

TEST_CASE("sliding, 100 a minute, 100 before, 15 s in: 26 denied, 25 ok, one more waits 0.6 s") {
  const CountedLimit limit{100, {}};
  SlidingUse use{100, 0, 45 * kTicksPerSecond, 60 * kTicksPerSecond};
  CHECK(decide(limit, use, {.cost = 26}).verdict == Verdict::denied);
  CHECK(decide(limit, use, {.cost = 25}).verdict == Verdict::admitted);
  use.current = 25;
  CHECK(decide(limit, use, {}).verdict == Verdict::denied);
  CHECK(retry_after(limit, use, {}) == kTicksPerSecond * 6 / 10);
}

TEST_CASE("a fixed window lets twice the limit through around a boundary, a sliding one does not") {
  const CountedLimit limit{10, {}};
  const WindowRule rule = WindowRule::every(1);
  const Ticks before = 100 * kTicksPerSecond - kEpoch.fraction - 1;
  const auto admitted = [&](auto use) {
    using Use = decltype(use);
    MapStore store;
    int count = 0;
    for (const Ticks now : {before, before + 1}) {
      store.true_now = now;
      for (int i = 0; i < 20; ++i) {
        count += Kind<Use>::decide(store, limit, rule, {}, now, Mode::take).step.verdict ==
                 Verdict::admitted;
      }
    }
    return count;
  };
  CHECK(admitted(FixedUse{}) == 20);
  CHECK(admitted(SlidingUse{}) == 10);
}

TEST_CASE("a word of the future that a fresh clock does not explain is refused, not obeyed") {
  MapStore store;
  store.true_now = 1000 * kTicksPerSecond;
  const Mark mark = mark_of(5000 * kTicksPerSecond);
  store.update(kKey, Access::insert, 1,
               [&](Word, Ticks) { return std::optional(counted_word(mark, 3)); });
  const auto answer = decide_fixed(store, CountedLimit{10, {}}, WindowRule::every(60), kEpoch, kKey,
                                   {}, store.true_now, Mode::take);
  CHECK(answer.step.verdict == Verdict::denied);
  CHECK(answer.wait >= 3999 * kTicksPerSecond);
  CHECK(store.word(kKey) == counted_word(mark, 3));
}

TEST_CASE("a peek makes no entry, and closes none") {
  MapStore store;
  store.true_now = 1000 * kTicksPerSecond;
  const WindowRule rule = WindowRule::every(60);
  const CountedLimit limit{10, {}};
  for (const std::uint32_t cost : {0U, 1U, 10U}) {
    Kind<FixedUse>::decide(store, limit, rule, {.cost = cost}, store.true_now, Mode::peek);
    Kind<SlidingUse>::decide(store, limit, rule, {.cost = cost}, store.true_now, Mode::peek);
  }
  CHECK(store.made() == 0);
}
