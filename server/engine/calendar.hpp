// Which window a moment lies in: windows of whole seconds, aligned to UTC.
//
// The server's time is monotonic and starts at 0; how it relates to UTC is fixed once, at the
// start, so that a step of the wall clock moves no window. (Leap seconds are not counted, as in
// POSIX time.) Pure functions.
#pragma once

#include <cstdint>

#include "server/engine/counted_word.hpp"
#include "server/engine/ticks.hpp"

namespace pail::engine {

// UTC at tick 0: seconds since 1970, and ticks into the second.
struct UtcEpoch {
  std::int64_t seconds = 0;
  Ticks fraction = 0;

  // A clock that says less than 1971 says nothing.
  [[nodiscard]] static constexpr UtcEpoch from_ns(std::uint64_t utc_ns) noexcept {
    constexpr std::uint64_t kYear1971Ns = std::uint64_t{365} * 86'400 * 1'000'000'000;
    if (utc_ns < kYear1971Ns) utc_ns = kYear1971Ns;
    return {static_cast<std::int64_t>(utc_ns / 1'000'000'000),
            utc_ns % 1'000'000'000 * kTicksPerNs};
  }
};

inline constexpr std::uint32_t kMaxWindowSeconds = 366 * 24 * 3600;
inline constexpr std::uint32_t kWeekSeconds = 7 * 24 * 3600;

// How windows follow each other.
struct WindowRule {
  // Windows of this many seconds, counted from 1970: 60 are UTC minutes, 86,400 UTC days. 0:
  // months.
  std::uint32_t seconds = 1;
  // Of a window of seconds: where it starts (a week starts on Monday, 4 days after 1970 did).
  std::uint32_t offset_seconds = 0;
  // Of a month: the day it starts on, 1 to 31; the last of a month that is shorter.
  std::uint8_t anchor_day = 1;

  [[nodiscard]] static constexpr WindowRule every(std::uint32_t seconds) noexcept {
    return {seconds, 0, 1};
  }
  [[nodiscard]] static constexpr WindowRule week() noexcept {
    return {kWeekSeconds, 4 * 24 * 3600, 1};
  }
  [[nodiscard]] static constexpr WindowRule month(std::uint8_t anchor_day = 1) noexcept {
    return {0, 0, anchor_day};
  }
  // Tells two rules apart in the identity of a key.
  [[nodiscard]] constexpr std::uint64_t identity() const noexcept {
    return std::uint64_t{seconds} | std::uint64_t{offset_seconds} << 32 |
           (seconds == 0 ? std::uint64_t{anchor_day} << 32 : 0);
  }
  friend bool operator==(const WindowRule&, const WindowRule&) = default;
};

struct Window {
  Ticks left = 0;       // until its end, at least 1
  Ticks length = 0;     // at most kMaxWindowSeconds
  bool is_odd = false;  // its number is
};

namespace detail {

// Days since 1970 of a date of the Gregorian calendar, and back. (Howard Hinnant, "chrono-
// Compatible Low-Level Date Algorithms": years that begin in March put the odd day last.)
[[nodiscard]] constexpr std::int64_t days_from_civil(std::int64_t year, unsigned month,
                                                     unsigned day) noexcept {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400;
  const auto year_of_era = static_cast<unsigned>(year - era * 400);
  const unsigned day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const unsigned day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146'097 + std::int64_t{day_of_era} - 719'468;
}

struct CivilMonth {
  std::int64_t year = 1970;
  unsigned month = 1;
  [[nodiscard]] constexpr CivilMonth next() const noexcept {
    return month == 12 ? CivilMonth{year + 1, 1} : CivilMonth{year, month + 1};
  }
  [[nodiscard]] constexpr CivilMonth previous() const noexcept {
    return month == 1 ? CivilMonth{year - 1, 12} : CivilMonth{year, month - 1};
  }
  // The day on which a billing month anchored at `anchor_day` begins in it.
  [[nodiscard]] constexpr std::int64_t start_day(std::uint8_t anchor_day) const noexcept {
    const std::int64_t first = days_from_civil(year, month, 1);
    const CivilMonth after = next();
    const std::int64_t days = days_from_civil(after.year, after.month, 1) - first;
    return first + (anchor_day < days ? anchor_day : days) - 1;
  }
};

[[nodiscard]] constexpr CivilMonth civil_month(std::int64_t days) noexcept {
  days += 719'468;
  const std::int64_t era = days / 146'097;
  const auto day_of_era = static_cast<unsigned>(days - era * 146'097);
  const unsigned year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const unsigned day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const unsigned shifted = (5 * day_of_year + 2) / 153;
  const unsigned month = shifted < 10 ? shifted + 3 : shifted - 9;
  return {std::int64_t{year_of_era} + era * 400 + (month <= 2 ? 1 : 0), month};
}

inline constexpr std::int64_t kDaySeconds = 24 * 3600;

}  // namespace detail

// UTC must be 1971 or later.
[[nodiscard]] constexpr Window window_at(const WindowRule& rule, const UtcEpoch& epoch,
                                         Ticks now) noexcept {
  const Ticks since = now + epoch.fraction;
  const std::int64_t second = epoch.seconds + static_cast<std::int64_t>(since / kTicksPerSecond);
  const Ticks into_second = since % kTicksPerSecond;
  std::int64_t start = 0;
  std::int64_t end = 0;
  Window window;
  if (rule.seconds != 0) {
    const std::int64_t number = (second - rule.offset_seconds) / rule.seconds;
    start = number * rule.seconds + rule.offset_seconds;
    end = start + rule.seconds;
    window.is_odd = number % 2 != 0;
  } else {
    const std::int64_t day = second / detail::kDaySeconds;
    detail::CivilMonth month = detail::civil_month(day);
    if (day < month.start_day(rule.anchor_day)) month = month.previous();
    start = month.start_day(rule.anchor_day) * detail::kDaySeconds;
    end = month.next().start_day(rule.anchor_day) * detail::kDaySeconds;
    window.is_odd = month.month % 2 != 0;
  }
  window.length = static_cast<Ticks>(end - start) * kTicksPerSecond;
  window.left = static_cast<Ticks>(end - second) * kTicksPerSecond - into_second;
  return window;
}

}  // namespace pail::engine
