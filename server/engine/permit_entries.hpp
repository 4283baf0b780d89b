// Permits in the table: giving one back, and carrying it into the present round. ACQUIRE is a take
// on the same two entries: decide_paired<PermitUse>.
//
// A permit is named by the mark of the round that counts it. Giving back the same permit twice
// takes somebody else's: holders must not (the client library does not), and a count of 0 stands.
#pragma once

#include "server/engine/concurrency.hpp"
#include "server/engine/counted_entries.hpp"

namespace pail::engine {

enum class PermitFate : std::uint8_t { kept, lapsed, full };

struct RenewedPermit {
  PermitFate fate = PermitFate::lapsed;
  Mark mark = 0;  // of the round that counts it now
};

// Whether there was such a permit.
template <class Store>
bool release_permit(Store& store, const WindowRule& rule, const UtcEpoch& epoch, KeyHash base,
                    Mark mark, std::uint32_t tokens, Ticks now) noexcept {
  for (int attempt = 0; attempt < kMaxRestarts; ++attempt) {
    const detail::PairedWindow in(rule, epoch, now);
    if (mark <= in.mark) {
      if (mark != in.mark && mark != in.previous_mark) return false;
      const bool is_odd = (mark == in.mark) == in.window.is_odd;
      return uncount(store, paired(base, is_odd), mark, tokens, now);
    }
    const Ticks later = store.fresh(now);  // given by a thread whose reading is newer than ours
    if (later <= now) return false;
    now = later;
  }
  return false;
}

namespace detail {

// Moves a permit of the previous round, which must be closed, into this one: counted here first, so
// that it is never counted nowhere. Nothing: read the clock again.
template <class Store>
[[nodiscard]] std::optional<RenewedPermit> carry_permit(Store& store, KeyHash base,
                                                        const PairedWindow& in,
                                                        std::uint32_t tokens, Ticks now) noexcept {
  const KeyHash current = paired(base, in.window.is_odd);
  OldClock old;
  bool is_overflow = false;
  const Outcome outcome = store.update(
      current, Access::insert, now, [&](Word word, Ticks at) noexcept -> std::optional<Word> {
        if (is_past(word, at, in, old)) return std::nullopt;
        const std::uint64_t count = std::uint64_t{count_in(word, in.mark)} + tokens;
        is_overflow = count > kCountMask;
        if (is_overflow) return std::nullopt;
        return counted_word(in.mark, count);
      });
  if (old.is_old) return std::nullopt;
  if (outcome == Outcome::full) return RenewedPermit{PermitFate::full, 0};
  if (is_overflow) return RenewedPermit{};
  if (uncount(store, paired(base, !in.window.is_odd), in.previous_mark, tokens, now)) {
    return RenewedPermit{PermitFate::kept, in.mark};
  }
  uncount(store, current, in.mark, tokens, now);  // it was nobody's
  return RenewedPermit{};
}

}  // namespace detail

// Makes a permit as good as one given now, if it has not lapsed.
template <class Store>
[[nodiscard]] RenewedPermit renew_permit(Store& store, const WindowRule& rule,
                                         const UtcEpoch& epoch, KeyHash base, Mark mark,
                                         std::uint32_t tokens, Ticks now) noexcept {
  for (int attempt = 0; attempt < kMaxRestarts; ++attempt) {
    const detail::PairedWindow in(rule, epoch, now);
    Ticks at = now;
    if (mark == in.mark) {
      bool is_current = false;
      detail::OldClock old;
      store.update(paired(base, in.window.is_odd), Access::find, now,
                   [&](Word word, Ticks seen_at) noexcept -> std::optional<Word> {
                     at = seen_at;
                     is_current = count_in(word, mark) >= tokens;
                     static_cast<void>(detail::is_past(word, seen_at, in, old));
                     return std::nullopt;
                   });
      if (!old.is_old) return is_current ? RenewedPermit{PermitFate::kept, mark} : RenewedPermit{};
    } else if (mark == in.previous_mark) {
      const detail::Closing closing =
          detail::close_previous(store, base, in, now, Access::find, Mode::take);
      at = closing.at;
      if (!closing.old.is_old) {
        if (closing.count < tokens) return {};
        if (const auto renewed = detail::carry_permit(store, base, in, tokens, now)) {
          return *renewed;
        }
      }
    } else if (mark < in.mark) {
      return {};
    }
    const Ticks later = store.fresh(at);
    if (later <= now) return {};
    now = later;
  }
  return {};
}

}  // namespace pail::engine
