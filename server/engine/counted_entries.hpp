// Windows in the table: which entries a decision reads and writes, and in which order.
//
// A fixed window has one entry a key. A sliding window, and concurrency, have two, for windows of
// even and of odd number, each living one window longer than its own. A decision in window n
//
//   1. closes the entry of n - 1 (creating it if there is none) and reads its count
//   2. counts in the entry of n, if what it read leaves room; a CAS, as everywhere
//
// and whoever finds the entry of its own window closed, or taken by a later window, holds an old
// reading of the clock: it reads the clock again and starts over. So a thread that is late either
// counts in n - 1 before that is closed, and is seen, or not at all: no increment escapes the sum.
//
// Generic over the store, so that tests can explore interleavings; the store offers
//
//   update(hash, access, now, decide) -> Outcome    as Table::update
//   fresh(at) -> Ticks                              the clock read now, at least `at`
#pragma once

#include <optional>

#include "server/engine/calendar.hpp"
#include "server/engine/counted_word.hpp"
#include "server/engine/fixed_window.hpp"
#include "server/engine/table_types.hpp"

namespace pail::engine {

// Starting over happens once a window boundary; more often only if a clock goes back.
inline constexpr int kMaxRestarts = 4;

enum class Mode : std::uint8_t { take, peek };

// What a decision on a counted limit came to, and where it was counted.
template <class Use>
struct CountedAnswer {
  CountedStep step = {};
  Use use = {};          // after the decision
  Ticks wait = 0;        // after a refusal
  bool is_full = false;  // no room in the table: nothing was decided
  Ticks at = 0;          // the time that it was decided on
  KeyHash entry = {};
  Mark mark = 0;
};

// One of the two entries of a pair. They share a segment and, being half of one hash each, nothing
// else.
[[nodiscard]] constexpr KeyHash paired(KeyHash base, bool is_odd) noexcept {
  constexpr std::uint64_t kOther = 0x9E37'79B9'7F4A'7C15;
  return is_odd ? KeyHash{base.high, base.low ^ kOther} : base;
}

namespace detail {

// The word says that the caller's reading of the clock is old; if it still says so after reading
// again, nothing can be decided before then.
struct OldClock {
  bool is_old = false;
  Ticks blocked_until = 0;

  constexpr bool operator()(Ticks until) noexcept {
    is_old = true;
    blocked_until = until;
    return true;
  }
};

template <class Use>
[[nodiscard]] CountedAnswer<Use> blocked(CountedAnswer<Use> answer, const OldClock& old) noexcept {
  answer.step = {Verdict::denied, 0};
  answer.wait = old.blocked_until > answer.at ? old.blocked_until - answer.at : 1;
  return answer;
}

[[nodiscard]] constexpr Ticks start_of(Mark mark) noexcept {
  return Ticks{mark} << kMarkShift;
}

}  // namespace detail

template <class Store>
[[nodiscard]] CountedAnswer<FixedUse> decide_fixed(Store& store, const CountedLimit& limit,
                                                   const WindowRule& rule, const UtcEpoch& epoch,
                                                   KeyHash hash, const Ask& ask, Ticks now,
                                                   Mode mode) noexcept {
  CountedAnswer<FixedUse> answer;
  answer.entry = hash;
  detail::OldClock old;
  const Access access = mode == Mode::take ? Access::insert : Access::find;
  for (int attempt = 0; attempt < kMaxRestarts; ++attempt) {
    old = {};
    const Outcome outcome =
        store.update(hash, access, now, [&](Word word, Ticks at) noexcept -> std::optional<Word> {
          const Window window = window_at(rule, epoch, at);
          answer.at = at;
          answer.mark = mark_of(at + window.left);
          old.is_old = false;
          if (mark_in(word) > answer.mark) {
            old(detail::start_of(mark_in(word)));
            return std::nullopt;
          }
          answer.use.count = count_in(word, answer.mark);
          answer.use.left = window.left;
          answer.step = decide(limit, answer.use, ask);
          if (mode == Mode::peek || answer.step.granted == 0) return std::nullopt;
          return counted_word(answer.mark, answer.use.count + answer.step.granted);
        });
    answer.is_full = outcome == Outcome::full;
    if (!old.is_old) {
      if (answer.step.verdict == Verdict::admitted) {
        answer.use.count += answer.step.granted;
      } else {
        answer.wait = retry_after(limit, answer.use, ask);
      }
      return answer;
    }
    now = store.fresh(answer.at);
  }
  return detail::blocked(answer, old);
}

namespace detail {

// Where a reading of the clock puts a decision.
struct PairedWindow {
  constexpr PairedWindow(const WindowRule& rule, const UtcEpoch& epoch, Ticks now) noexcept
      : window(window_at(rule, epoch, now)),
        end(now + window.left),
        mark(mark_of(end + window.length)),
        previous_mark(mark_of(end)) {}

  Window window;
  Ticks end;
  Mark mark;           // of this window's entry, which lives until the next one's end
  Mark previous_mark;  // of the previous one's, which lives until this one's end
};

// What the previous window's entry said.
struct Closing {
  OldClock old;
  Ticks at = 0;
  std::uint32_t count = 0;
  bool is_full = false;
};

// Step 1. A peek reads without closing.
template <class Store>
[[nodiscard]] Closing close_previous(Store& store, KeyHash base, const PairedWindow& in, Ticks now,
                                     Access access, Mode mode) noexcept {
  Closing closing;
  const Outcome outcome =
      store.update(paired(base, !in.window.is_odd), access, now,
                   [&](Word word, Ticks at) noexcept -> std::optional<Word> {
                     closing.old = {};
                     closing.at = at;
                     closing.count = count_in(word, in.previous_mark);
                     if (mark_in(word) > in.previous_mark) {
                       closing.old(start_of(mark_in(word)));
                       return std::nullopt;
                     }
                     if (at >= in.end) {  // the table has seen a later time than this caller
                       closing.old(in.end);
                       return std::nullopt;
                     }
                     const bool is_ours = mark_in(word) == in.previous_mark;
                     if (mode == Mode::peek || (is_ours && is_closed(word))) return std::nullopt;
                     return counted_word(in.previous_mark, closing.count, true);
                   });
  closing.is_full = outcome == Outcome::full;
  return closing;
}

// Whether the current window's entry may be counted in by a caller in that window.
[[nodiscard]] constexpr bool is_past(Word word, Ticks at, const PairedWindow& in,
                                     OldClock& old) noexcept {
  old = {};
  if (mark_in(word) > in.mark) return old(start_of(mark_in(word)));
  if (mark_in(word) == in.mark && is_closed(word)) return old(in.end + in.window.length);
  if (at >= in.end) return old(in.end);
  return false;
}

}  // namespace detail

template <class Use, class Store>
[[nodiscard]] CountedAnswer<Use> decide_paired(Store& store, const CountedLimit& limit,
                                               const WindowRule& rule, const UtcEpoch& epoch,
                                               KeyHash base, const Ask& ask, Ticks now,
                                               Mode mode) noexcept {
  CountedAnswer<Use> answer;
  detail::OldClock old;
  const Access access = mode == Mode::take ? Access::insert : Access::find;
  for (int attempt = 0; attempt < kMaxRestarts; ++attempt) {
    const detail::PairedWindow in(rule, epoch, now);
    const detail::Closing closing = detail::close_previous(store, base, in, now, access, mode);
    answer.at = closing.at;
    answer.mark = in.mark;
    answer.entry = paired(base, in.window.is_odd);
    if (closing.is_full) return answer.is_full = true, answer;
    old = closing.old;
    if (!old.is_old) {
      answer.use.previous = closing.count;
      answer.use.length = in.window.length;
      const Outcome outcome = store.update(
          answer.entry, access, now, [&](Word word, Ticks at) noexcept -> std::optional<Word> {
            answer.at = at;
            if (detail::is_past(word, at, in, old)) return std::nullopt;
            answer.use.left = in.end - at;
            answer.use.current = count_in(word, in.mark);
            answer.step = decide(limit, answer.use, ask);
            if (mode == Mode::peek || answer.step.granted == 0) return std::nullopt;
            return counted_word(in.mark, answer.use.current + answer.step.granted);
          });
      if (outcome == Outcome::full) return answer.is_full = true, answer;
    }
    if (!old.is_old) {
      if (answer.step.verdict == Verdict::admitted) {
        answer.use.current += answer.step.granted;
      } else {
        answer.wait = retry_after(limit, answer.use, ask);
      }
      return answer;
    }
    now = store.fresh(answer.at);
  }
  return detail::blocked(answer, old);
}

// Gives back tokens counted in the window of `mark`, if that is still what the entry counts.
template <class Store>
bool uncount(Store& store, KeyHash entry, Mark mark, std::uint32_t tokens, Ticks now) noexcept {
  return store.update(entry, Access::find, now,
                      [&](Word word, Ticks) noexcept -> std::optional<Word> {
                        const Word next = uncounted(word, mark, tokens);
                        if (next == 0) return std::nullopt;
                        return next;
                      }) == Outcome::written;
}

}  // namespace pail::engine
