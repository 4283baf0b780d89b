// A schedule as a list of choices, and the next one: depth first, by changing the last choice that
// has an alternative left. Whoever makes the choices must come by them in the same order again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pail::model {

class Choices {
 public:
  // Forgets all: the first schedule takes whatever is picked.
  void clear() { choices_.clear(), depth_ = 0; }
  // Back to the first choice, to run the schedule.
  void rewind() noexcept { depth_ = 0; }
  // Whether the next choice is one that was not come by before.
  [[nodiscard]] bool is_new() const noexcept { return depth_ == choices_.size(); }

  // 0 to options - 1: as the schedule says, or where it says nothing yet, as pick() does.
  template <class Pick>
  [[nodiscard]] unsigned choose(unsigned options, Pick pick) {
    if (options == 1) return 0;
    if (is_new()) {
      choices_.push_back({static_cast<std::uint8_t>(pick()), static_cast<std::uint8_t>(options)});
    }
    return choices_[depth_++].taken;
  }

  // False: there is no further schedule.
  [[nodiscard]] bool advance() {
    while (!choices_.empty() && choices_.back().taken + 1 >= choices_.back().options) {
      choices_.pop_back();
    }
    if (choices_.empty()) return false;
    ++choices_.back().taken;
    return true;
  }

 private:
  struct Choice {
    std::uint8_t taken;
    std::uint8_t options;
  };

  std::vector<Choice> choices_;
  std::size_t depth_ = 0;
};

}  // namespace pail::model
