// Token buckets as a textbook has them, in exact 128-bit rational numbers: a level of tokens that
// refills and is drawn from. Nothing is shared with the engine's arithmetic, which knows only a
// time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pail::test {

__extension__ using Wide = unsigned __int128;

// `numerator / denominator` tokens a tick, at most `burst` at once; the level is kept in units of
// 1/denominator token.
class ExactBucket {
 public:
  ExactBucket(Wide numerator, Wide denominator, std::uint64_t burst)
      : numerator_(numerator),
        denominator_(denominator),
        full_(burst * denominator),
        level_(full_) {}

  // Time goes on to `now`; it never goes back.
  void advance(std::uint64_t now) {
    level_ = std::min(full_, level_ + numerator_ * (now - now_));
    now_ = now;
  }

  [[nodiscard]] bool has(std::uint64_t tokens) const { return level_ >= tokens * denominator_; }
  void draw(std::uint64_t tokens) { level_ -= tokens * denominator_; }
  [[nodiscard]] std::uint64_t tokens() const {
    return static_cast<std::uint64_t>(level_ / denominator_);
  }

  // Ticks until there are so many tokens, rounded up; 0 if there are.
  [[nodiscard]] std::uint64_t ticks_until(std::uint64_t tokens) const {
    if (has(tokens)) return 0;
    const Wide missing = tokens * denominator_ - level_;
    return static_cast<std::uint64_t>((missing + numerator_ - 1) / numerator_);
  }
  [[nodiscard]] std::uint64_t ticks_until_full() const {
    return static_cast<std::uint64_t>((full_ - level_ + numerator_ - 1) / numerator_);
  }

 private:
  Wide numerator_;
  Wide denominator_;
  Wide full_;
  Wide level_;
  std::uint64_t now_ = 0;
};

}  // namespace pail::test
