// What is explored: programs, what is in the table at the start, and how arrays follow one another.
#pragma once

#include <string>
#include <vector>

#include "tests/model/world.hpp"

namespace pail::model {

// Letters: see operations.cpp. Each is two or three operations on the table a thread; C and R are
// the clock's.
inline const std::vector<std::vector<std::string>>& two_threads() {
  static const std::vector<std::vector<std::string>> programs = {
      {"11M", "11M"},    {"M1", "1C1"},    {"M1", "R1CR1"},  {"MM1", "111"},  {"M2M", "121"},
      {"NN1", "1M1"},    {"MN1", "N11"},   {"M1", "z1"},     {"M11", "1z1"},  {"M1f", "M1f1"},
      {"1fM", "CR11"},   {"CRM1", "11"},   {"M1M", "N1z"},   {"NCRN", "11"},  {"MCRN", "R11"},
      {"1CRf1", "M1R1"}, {"31M", "12M"},   {"MQ1", "1p1"},   {"MQM", "1Q1"},  {"MQQ", "O1p"},
      {"m1m", "1mM"},    {"123", "321"},   {"S1Q", "M11"},   {"CRS1", "12p"}, {"MO1", "1O1"},
      {"23M", "3z1"},    {"1M1", "CCR1f"}, {"CCRMQ", "1p1"}, {"3M2", "1S1"},
  };
  return programs;
}

inline const std::vector<std::vector<std::string>>& three_threads() {
  static const std::vector<std::vector<std::string>> programs = {
      {"M", "CRM", "11"},     {"M", "M", "11"},     {"M", "1", "1"},      {"M", "N", "1"},
      {"M", "N", "11"},       {"N", "N", "11"},     {"NN", "11", "1"},    {"M", "CR1", "1"},
      {"CRM", "1", "11"},     {"M", "2", "1"},      {"M", "31", "2"},     {"M", "z1", "1"},
      {"M", "N", "z1"},       {"CRM", "R1", "11"},  {"CRM1", "R1f", "1"}, {"M1", "f", "1f"},
      {"1f", "CR1", "M"},     {"1f", "CCR11", "M"}, {"CM", "CRN", "11"},  {"M", "CRN", "1"},
      {"CCRM", "CRM1", "11"}, {"CCRM", "CN", "R1"}, {"M", "MQ", "p1"},    {"MQ", "1Q", "11"},
      {"12", "31", "23"},     {"M1", "m1", "p1"},   {"S", "M1", "12"},    {"MQ", "MQ", "1p"},
  };
  return programs;
}

inline const std::vector<std::vector<Setting::Entry>>& starts() {
  static const std::vector<std::vector<Setting::Entry>> all = {
      {}, {{1, 4}}, {{2, 9}, {1, 4}}, {{1, 5}, {2, 4}}, {{1, 3}},
  };
  return all;
}

// How many slots the next array has, by the slots of the one before; and when it is begun.
struct Shape {
  std::array<std::uint32_t, kMaxSlots + 1> next_slots;
  std::uint32_t grow_below_full = 0;
  std::uint32_t close_below_full = 0;
  std::size_t max_arrays = 1000;
};

inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {{2, 0, 2, 2, 2, 2, 2, 2, 2}},           // never enough: chains
      {{2, 0, 3, 4, 4, 4, 4, 4, 4}},           // growing, on demand only
      {{3, 0, 2, 2, 3, 2, 2, 2, 2}},           // shrinking
      {{2, 0, 4, 6, 8, 8, 8, 8, 8}, 1, 0},     // begun one slot before full
      {{4, 0, 2, 2, 8, 2, 2, 2, 4}, 2, 1},     // begun early, closed before full
      {{2, 0, 2, 2, 2, 2, 2, 2, 2}, 0, 0, 2},  // at the memory limit
      {{3, 0, 4, 3, 3, 3, 3, 3, 3}, 1, 1, 1},  // hardly any memory at all
      {{8, 0, 3, 5, 3, 3, 3, 3, 3}, 5, 2},     // large and mostly empty
  };
  return all;
}

// Where a program is run.
struct Situation {
  std::size_t start = 0;
  std::size_t shape = 0;
  bool spread = false;
  Ticks increment = 1;
};

inline std::vector<Situation> situations() {
  std::vector<Situation> all;
  for (std::size_t start = 0; start < starts().size(); ++start) {
    for (std::size_t shape = 0; shape < shapes().size(); ++shape) {
      for (const bool spread : {false, true}) {
        for (const Ticks increment : {1U, 2U}) all.push_back({start, shape, spread, increment});
      }
    }
  }
  return all;
}

inline Setting make_setting(const std::vector<std::string>& programs, const Situation& situation,
                            engine::Flaw flaw = engine::Flaw::none) {
  const Shape& shape = shapes()[situation.shape];
  Setting setting;
  setting.programs = programs;
  setting.entries = starts()[situation.start];
  setting.next_slots = shape.next_slots;
  setting.grow_below_full = shape.grow_below_full;
  setting.close_below_full = shape.close_below_full;
  setting.max_arrays = shape.max_arrays;
  setting.spread = situation.spread;
  setting.increment = situation.increment;
  setting.flaw = flaw;
  return setting;
}

}  // namespace pail::model
