// Token buckets as a textbook has them, in exact 128-bit rational numbers: a level of tokens that
// refills and is drawn from. Nothing is shared with the engine's arithmetic, which knows only a
// time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pail::test {

__extension__ using Wide = unsigned __int128;

// `numerator / denominator` tokens a tick, at most `burst` at once; the level is kept in units of
// 1/denominator token, as it was when it was last drawn from.
//
// It may be asked by an older reading of the clock than it was drawn from by: what has come since
// that reading is not there yet, and may be less than nothing.
class ExactBucket {
 public:
  __extension__ using Signed = __int128;

  ExactBucket(Wide numerator, Wide denominator, std::uint64_t burst)
      : numerator_(static_cast<Signed>(numerator)),
        denominator_(static_cast<Signed>(denominator)),
        full_(static_cast<Signed>(burst) * denominator_),
        level_(full_) {}

  // By which reading the questions below are asked, and draw() draws.
  void look_at(std::uint64_t now) { now_ = now; }

  [[nodiscard]] bool has(std::uint64_t tokens) const { return level() >= units(tokens); }
  void draw(std::uint64_t tokens) {
    if (now_ > drawn_at_) {
      level_ = level();
      drawn_at_ = now_;
    }
    level_ -= units(tokens);
  }
  [[nodiscard]] std::uint64_t tokens() const {
    return level() < 0 ? 0 : static_cast<std::uint64_t>(level() / denominator_);
  }

  // Ticks until there are so many tokens, rounded up; 0 if there are.
  [[nodiscard]] std::uint64_t ticks_until(std::uint64_t tokens) const {
    return has(tokens) ? 0 : ticks_for(units(tokens) - level());
  }
  [[nodiscard]] std::uint64_t ticks_until_full() const { return ticks_for(full_ - level()); }

 private:
  [[nodiscard]] Signed units(std::uint64_t tokens) const {
    return static_cast<Signed>(tokens) * denominator_;
  }
  [[nodiscard]] Signed level() const {
    const Signed since = static_cast<Signed>(now_) - static_cast<Signed>(drawn_at_);
    return std::min(full_, level_ + numerator_ * since);
  }
  [[nodiscard]] std::uint64_t ticks_for(Signed missing) const {
    return static_cast<std::uint64_t>((missing + numerator_ - 1) / numerator_);
  }

  Signed numerator_;
  Signed denominator_;
  Signed full_;
  Signed level_;
  std::uint64_t drawn_at_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace pail::test
