// Explores many settings, on all processors, and tells of the first that is violated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/world.hpp"

namespace pail::model {

struct Job {
  Setting setting;
  Limits limits;
};

struct Total {
  std::uint64_t runs = 0;
  std::uint64_t states = 0;
  std::string
      fault;  // the setting, the violation, and a schedule with as few preemptions as may be
};

[[nodiscard]] Total explore_all(const std::vector<Job>& jobs);

// The setting, the violation and the schedule, as lines of text.
[[nodiscard]] std::string tell(const Setting& setting, const Report& report);

// For runs by hand: PAIL_MODEL=long takes everything, with one preemption more.
[[nodiscard]] bool is_long();

}  // namespace pail::model
