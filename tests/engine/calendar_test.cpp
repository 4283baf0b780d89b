// Windows against the C library's calendar: random moments of a century, every kind of window.
#include "server/engine/calendar.hpp"

#include <doctest/doctest.h>
#include <time.h>

#include "tests/support/random.hpp"
#include "tests/support/scale.hpp"

using namespace pail::engine;
using pail::test::Random;

namespace {

struct Span {
  std::int64_t start = 0;
  std::int64_t end = 0;
};

std::int64_t first_of_month(int year, int month) {
  tm date{};
  date.tm_year = year;
  date.tm_mon = month;
  date.tm_mday = 1;
  return ::timegm(&date);
}

// The day on which a billing month begins, by asking how long the month is.
std::int64_t billing_start(int year, int month, int anchor_day) {
  const std::int64_t first = first_of_month(year, month);
  const auto days = static_cast<int>((first_of_month(year, month + 1) - first) / 86'400);
  return first + std::int64_t{std::min(anchor_day, days) - 1} * 86'400;
}

Span billing_month(std::int64_t second, int anchor_day) {
  const time_t moment = second;
  tm date{};
  ::gmtime_r(&moment, &date);
  for (int month = date.tm_mon - 1;; ++month) {
    const std::int64_t end = billing_start(date.tm_year, month + 1, anchor_day);
    if (second < end) return {billing_start(date.tm_year, month, anchor_day), end};
  }
}

Span week(std::int64_t second) {
  const time_t moment = second;
  tm date{};
  ::gmtime_r(&moment, &date);
  const std::int64_t midnight = second - second % 86'400;
  const std::int64_t monday = midnight - std::int64_t{(date.tm_wday + 6) % 7} * 86'400;
  return {monday, monday + 7 * 86'400};
}

bool agrees(const WindowRule& rule, const UtcEpoch& epoch, Ticks now, const Span& span) {
  const Window window = window_at(rule, epoch, now);
  __extension__ using Signed = __int128;
  const Signed utc = Signed{epoch.seconds} * kTicksPerSecond + epoch.fraction + now;
  return window.left >= 1 && window.left <= window.length &&
         utc + window.left == Signed{span.end} * kTicksPerSecond &&
         window.length == static_cast<Ticks>(span.end - span.start) * kTicksPerSecond;
}

constexpr std::uint64_t kYear2026Ns = 1'767'225'600'000'000'000;

}  // namespace

TEST_CASE("windows of every kind are the calendar's") {
  Random random(22);
  const int rounds = pail::test::operations(1'000'000);
  for (int i = 0; i < rounds; ++i) {
    const auto epoch = UtcEpoch::from_ns(random.between(400 * 86'400'000'000'000, 1ULL << 62));
    const Ticks now = random.magnitude(kMinNow, kMaxNow);
    const std::int64_t second =
        epoch.seconds + static_cast<std::int64_t>((now + epoch.fraction) / kTicksPerSecond);
    const auto seconds = static_cast<std::uint32_t>(random.magnitude(1, kMaxWindowSeconds));
    const std::int64_t start = second - second % seconds;
    const auto anchor = static_cast<std::uint8_t>(random.between(1, 31));
    const bool is_fine =
        agrees(WindowRule::every(seconds), epoch, now, {start, start + seconds}) &&
        agrees(WindowRule::week(), epoch, now, week(second)) &&
        agrees(WindowRule::month(anchor), epoch, now, billing_month(second, anchor));
    if (!is_fine) FAIL("second ", second, " window ", seconds, " anchor ", int{anchor});
  }
}

TEST_CASE("the last tick of a window and the first of the next") {
  const auto epoch = UtcEpoch::from_ns(kYear2026Ns + 250'000'000);
  const WindowRule minute = WindowRule::every(60);
  const Ticks end = 60 * kTicksPerSecond - kTicksPerSecond / 4;
  CHECK(window_at(minute, epoch, end - 1).left == 1);
  CHECK(window_at(minute, epoch, end).left == 60 * kTicksPerSecond);
  CHECK(window_at(minute, epoch, end - 1).is_odd != window_at(minute, epoch, end).is_odd);
}

TEST_CASE("a billing month that starts on the 31st") {
  constexpr std::uint64_t kDayNs = 86'400'000'000'000;
  const WindowRule rule = WindowRule::month(31);
  const auto days = [&](std::uint64_t day_of_2026) {
    const auto epoch = UtcEpoch::from_ns(kYear2026Ns + day_of_2026 * kDayNs);
    return window_at(rule, epoch, 0).length / (86'400 * kTicksPerSecond);
  };
  CHECK(days(0) == 31);    // 31 December to 31 January
  CHECK(days(29) == 31);   // 30 January: the same
  CHECK(days(30) == 28);   // 31 January to 28 February
  CHECK(days(57) == 28);   // 27 February: the same
  CHECK(days(58) == 31);   // 28 February to 31 March
  CHECK(days(119) == 31);  // 30 April to 31 May
}

TEST_CASE("consecutive windows of a second have marks of their own") {
  const WindowRule second = WindowRule::every(1);
  for (std::uint64_t ns = 0; ns < 1'000'000'000; ns += 9'999'991) {
    const auto epoch = UtcEpoch::from_ns(kYear2026Ns + ns);
    Mark last = 0;
    for (Ticks n = 0; n < 20; ++n) {
      const Ticks now = n * kTicksPerSecond + 1;
      const Mark mark = mark_of(now + window_at(second, epoch, now).left);
      if (mark <= last) FAIL("window ", n, " at ", ns);
      last = mark;
    }
  }
}

TEST_CASE("a word that is past is idle, whatever it counts") {
  const Mark mark = mark_of(1000 * kTicksPerSecond + 1);
  const Word word = counted_word(mark, 77, true);
  CHECK(word > 1000 * kTicksPerSecond);
  CHECK(count_in(word, mark) == 77);
  CHECK(count_in(word, mark + 1) == 0);
  CHECK(is_closed(word));
  CHECK(counted_word(mark + 1, 0) > counted_word(mark, kCountMask, true));
  CHECK(counted_word(mark_of(kMaxNow + kMaxHorizon / 2), kCountMask, true) < Word{1} << 63);
  CHECK(uncounted(word, mark, 77) == counted_word(mark, 0, true));
  CHECK(uncounted(word, mark, 78) == 0);
  CHECK(uncounted(word, mark + 1, 1) == 0);
  CHECK(uncounted(word, mark, 0) == 0);
}
