#include "tests/model/limits_world.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "server/engine/layers.hpp"
#include "server/engine/permit_entries.hpp"
#include "server/engine/rate.hpp"
#include "tests/model/choices.hpp"
#include "tests/model/fiber.hpp"

namespace pail::model {
namespace {

using namespace pail::engine;

constexpr std::size_t kMostThreads = 3;
constexpr Ticks kSecond = kTicksPerSecond;
constexpr UtcEpoch kEpoch{1'767'225'600, 0};
constexpr Ticks kStart = 101 * kSecond;  // half of a window has passed
constexpr std::uint32_t kWindowSeconds = 2;
constexpr std::uint32_t kWindowLimit = 2;
constexpr std::uint32_t kPermits = 1;
constexpr std::uint32_t kBurstA = 2;
constexpr std::uint32_t kBurstB = 1;

// They differ in what the cells are found by; A is taken from first.
constexpr KeyHash kBucketA{1, 100};
constexpr KeyHash kBucketB{2, 200};
constexpr KeyHash kWindow{0, 300};
constexpr KeyHash kPermit{3, 400};

Limit bucket(std::uint32_t burst) {
  Limit limit;
  limit.queue.bucket = make_token_bucket(Rate{1'000'000'000, 1, burst}).value();
  return limit;
}

Limit counted(Algorithm algorithm, std::uint32_t most) {
  Limit limit;
  limit.algorithm = algorithm;
  limit.counted.most = most;
  limit.rule = WindowRule::every(kWindowSeconds);
  return limit;
}

// Of one thread, in one run.
struct Actor {
  Ticks clock = kStart;
  bool is_finished = false;
  // Its permit, if it ever got one and has not given it back; lapsed ones too.
  bool is_holder = false;
  Mark mark = 0;
  Ticks holds_until = 0;
};

struct Cell {
  std::uint64_t low = 0;
  Word word = 0;
};

struct Counted {
  Mark mark = 0;
  Mark previous = 0;
  Ticks left = 0;
  std::uint32_t count = 0;
};

class LimitsWorld {
 public:
  LimitsWorld() {
    for (auto& fiber : fibers_) {
      fiber.emplace([](void* with) { static_cast<LimitsWorld*>(with)->run_program(); }, this);
    }
  }

  LimitsReport explore(const LimitsSetting& setting, unsigned preemptions) {
    setting_ = setting;
    LimitsReport report;
    choices_.clear();
    do {
      run(preemptions);
      ++report.runs;
    } while (violation_.empty() && choices_.advance());
    report.violation = violation_;
    return report;
  }

  // ---- the store

  template <class Decide>
  Outcome update(KeyHash hash, engine::Access access, Ticks clock, Decide&& decide) noexcept {
    for (;;) {
      point();
      Cell& cell = find(hash.low);
      const Word word = cell.word;
      const Ticks floor = floor_;
      const Ticks now = std::max(clock, floor);
      std::optional<Word> next = decide(word, now);
      if (!next || (word == 0 && access == engine::Access::find)) return Outcome::unchanged;
      point();
      if (cell.word != word || floor_ != floor) continue;  // or moved to another array
      const bool is_window = is_pair(hash, kWindow);
      if (is_window || is_pair(hash, kPermit)) {
        if (setting_.flaw == LimitsFlaw::no_closed_bit) *next &= ~kClosedBit;
        if (is_window) note_counted(word, *next, now);
      }
      cell.word = *next;
      return Outcome::written;
    }
  }

  Ticks fresh(Ticks at) noexcept {
    if (setting_.flaw == LimitsFlaw::give_back_by_turn_clock) return at;
    point();
    return std::max(at, clock_);
  }

  ResetFence& fence() noexcept { return fence_; }

 private:
  // ---- the scheduler

  void run(unsigned preemptions) {
    choices_.rewind();
    violation_.clear();
    preemptions_left_ = preemptions;
    clock_ = kStart;
    floor_ = 0;
    cells_ = {};
    window_.clear();
    final_.clear();
    taken_a_.clear();
    taken_b_.clear();
    all_asked_ = all_admitted_ = 0;
    is_all_only_ = true;
    actors_ = {};
    const std::size_t count = setting_.programs.size();
    for (std::size_t t = count; t < kMostThreads; ++t) actors_[t].is_finished = true;
    for (auto& fiber : fibers_) fiber->rewind();
    next_ = choices_.choose(static_cast<unsigned>(count), [] { return 0U; });
    for (;;) {
      current_ = next_;
      fibers_[current_]->resume();
      if (!violation_.empty()) return;
      if (!me().is_finished) continue;
      std::array<std::size_t, kMostThreads> left{};
      unsigned remaining = 0;
      for (std::size_t t = 0; t < kMostThreads; ++t) {
        if (!actors_[t].is_finished) left[remaining++] = t;
      }
      if (remaining == 0) break;
      next_ = left[choices_.choose(remaining, [] { return 0U; })];
    }
    violation_ = check_end();
  }

  void run_program() noexcept {
    for (const char operation : setting_.programs[current_]) operate(operation);
    me().is_finished = true;
  }

  // Here another thread may come in.
  void point() noexcept {
    if (preemptions_left_ == 0) return;
    std::array<std::size_t, kMostThreads> others{};
    unsigned count = 0;
    for (std::size_t t = 0; t < kMostThreads; ++t) {
      if (t != current_ && !actors_[t].is_finished) others[count++] = t;
    }
    const unsigned chosen = choices_.choose(count + 1, [] { return 0U; });
    if (chosen == 0) return;
    --preemptions_left_;
    next_ = others[chosen - 1];
    fibers_[current_]->yield();
  }

  [[noreturn]] void stop(const char* violation) noexcept {
    violation_ = violation;
    fibers_[current_]->abandon();
  }

  Actor& me() noexcept { return actors_[current_]; }

  // ---- operations

  void operate(char operation) noexcept {
    if (operation != 'x') is_all_only_ = false;
    switch (operation) {
      case 's':
        static_cast<void>(judge(*this, sliding_, kEpoch, kWindow, {}, me().clock, Mode::take));
        return;
      case 'a':
        return acquire();
      case 'n':
        return renew();
      case 'e':
        return release();
      case '1':
        return take_one(bucket_a_, kBucketA, taken_a_);
      case '2':
        return take_one(bucket_b_, kBucketB, taken_b_);
      case 'x':
        return take_all(bucket_a_, kBucketA, &taken_a_);
      case 'y':
        return take_all(sliding_, kWindow, nullptr);
      case 'C':
        point();
        clock_ += kSecond;
        return;
      case 'R':
        point();
        me().clock = clock_;
        return;
      case 'B':
        return drop_idle();
      default:
        stop("no such operation");
    }
  }

  void take_one(const Limit& limit, KeyHash hash, std::vector<Ticks>& taken) noexcept {
    const Judgement judgement = judge(*this, limit, kEpoch, hash, {}, me().clock, Mode::take);
    if (judgement.verdict == Verdict::admitted) taken.push_back(judgement.at);
  }

  void take_all(const Limit& first, KeyHash hash, std::vector<Ticks>* taken) noexcept {
    const std::array<PlannedLayer, 2> layers{PlannedLayer{&first, hash, 1},
                                             PlannedLayer{&bucket_b_, kBucketB, 1}};
    const LayersJudgement all = take_layers(*this, kEpoch, layers, 0, me().clock);
    ++all_asked_;
    if (all.refusing != kNoLayer) return;
    ++all_admitted_;
    if (taken != nullptr) taken->push_back(all.layers[0].at);
    taken_b_.push_back(all.layers[1].at);
  }

  // A holder counts its time from when it asked.
  void acquire() noexcept {
    if (me().is_holder) return;
    const Ticks sent = me().clock;
    const Judgement judgement = judge(*this, permits_, kEpoch, kPermit, {}, sent, Mode::take);
    if (judgement.verdict == Verdict::admitted) hold(judgement.mark, sent);
  }

  void renew() noexcept {
    if (!me().is_holder) return;
    const Ticks sent = me().clock;
    const RenewedPermit renewed =
        renew_permit(*this, permits_.rule, kEpoch, kPermit, me().mark, 1, sent);
    if (renewed.fate == PermitFate::kept) return hold(renewed.mark, sent);
    me().is_holder = false;
  }

  void release() noexcept {
    if (!std::exchange(me().is_holder, false)) return;
    me().holds_until = 0;
    if (setting_.flaw == LimitsFlaw::release_without_round) {
      const engine::detail::PairedWindow in(permits_.rule, kEpoch, me().clock);
      uncount(*this, paired(kPermit, in.window.is_odd), in.mark, 1, me().clock);
      return;
    }
    release_permit(*this, permits_.rule, kEpoch, kPermit, me().mark, 1, me().clock);
  }

  void hold(Mark mark, Ticks sent) noexcept {
    me().is_holder = true;
    me().mark = mark;
    me().holds_until = sent + kWindowSeconds * kSecond;
    std::uint32_t holders = 0;
    for (const Actor& actor : actors_) {
      holders += actor.is_holder && actor.holds_until > clock_ ? 1U : 0U;
    }
    if (holders > kPermits) stop("more hold a permit than there are");
  }

  // As a migration does: who decides later does so at this thread's reading at least.
  void drop_idle() noexcept {
    point();
    floor_ = std::max(floor_, me().clock);
    for (Cell& cell : cells_) {
      if (cell.word <= floor_) cell.word = 0;
    }
  }

  // ---- what must be true

  static bool is_pair(KeyHash hash, KeyHash of) noexcept { return hash.high == of.high; }

  Cell& find(std::uint64_t low) noexcept {
    for (Cell& cell : cells_) {
      if (cell.low == 0) cell.low = low;
      if (cell.low == low) return cell;
    }
    stop("more entries than the model has room for");
  }

  // What was counted in which window, when, as the words have it.
  void note_counted(Word before, Word after, Ticks now) noexcept {
    const Mark mark = mark_in(after);
    const std::uint32_t count = count_in(after, mark);
    const bool is_more = count > count_in(before, mark);
    final_[mark] = count;
    if (!is_more) return;
    const engine::detail::PairedWindow in(sliding_.rule, kEpoch, now);
    if (in.mark != mark) stop("a take is counted in a window that is not its own");
    window_.push_back({mark, in.previous_mark, in.window.left, count});
  }

  // Empty, or the bound that was not kept. By the times of the decisions; see tests/stress.
  static std::string check_bucket(std::vector<Ticks> taken, std::uint32_t burst, const char* name) {
    std::sort(taken.begin(), taken.end());
    Ticks word = 0;
    for (const Ticks at : taken) {
      word = std::max(word, at) + kSecond;
      if (word > at + burst * kSecond) return std::string("more is admitted than bucket ") + name;
    }
    return {};
  }

  std::string check_end() {
    // Nothing was counted in a window after the next one had read it.
    for (const Counted& counted : window_) {
      const auto previous = final_.find(counted.previous);
      const Ticks before = previous == final_.end() ? 0 : previous->second * counted.left;
      if (before + counted.count * kWindowSeconds * kSecond >
          kWindowLimit * kWindowSeconds * kSecond) {
        return "more is admitted than the window";
      }
    }
    if (std::string fault = check_bucket(taken_a_, kBurstA, "A"); !fault.empty()) return fault;
    if (std::string fault = check_bucket(taken_b_, kBurstB, "B"); !fault.empty()) return fault;
    // By a clock that stands, what was refused left no trace.
    if (clock_ == kStart && floor_ == 0) {
      if (!is_charged(kBucketA, taken_a_) || !is_charged(kBucketB, taken_b_)) {
        return "a bucket is charged for what was refused, or not for what was admitted";
      }
      if (is_all_only_ && all_asked_ != 0 && all_admitted_ == 0)
        return "of those that cross none wins";
    }
    return {};
  }

  bool is_charged(KeyHash hash, const std::vector<Ticks>& taken) {
    const Word word = find(hash.low).word;
    return std::max(word, kStart) == kStart + taken.size() * kSecond;
  }

  const Limit bucket_a_ = bucket(kBurstA);
  const Limit bucket_b_ = bucket(kBurstB);
  const Limit sliding_ = counted(Algorithm::sliding_window, kWindowLimit);
  const Limit permits_ = counted(Algorithm::concurrency, kPermits);
  ResetFence
      fence_;  // nothing is RESET here; its schedules are tests/engine/reset_fence_test.cpp's

  LimitsSetting setting_;
  Choices choices_;
  std::array<std::optional<Fiber>, kMostThreads> fibers_;

  // Of one run.
  std::string violation_;
  unsigned preemptions_left_ = 0;
  std::size_t current_ = 0;
  std::size_t next_ = 0;
  std::array<Actor, kMostThreads> actors_;
  Ticks clock_ = kStart;  // the true time
  Ticks floor_ = 0;
  std::array<Cell, 8> cells_;
  std::vector<Counted> window_;
  std::map<Mark, std::uint32_t> final_;
  std::vector<Ticks> taken_a_;  // when
  std::vector<Ticks> taken_b_;
  unsigned all_asked_ = 0;
  unsigned all_admitted_ = 0;
  bool is_all_only_ = true;
};

}  // namespace

LimitsReport explore(const LimitsSetting& setting, unsigned preemptions) {
  static thread_local LimitsWorld world;
  return world.explore(setting, preemptions);
}

}  // namespace pail::model
