// How much a long test does: all of it where code is optimised, a tenth under sanitizers and
// without optimisation. PAIL_OPERATIONS overrides.
#pragma once

#include <cstdlib>

namespace pail::test {

inline int operations(int all) {
  if (const char* const given = std::getenv("PAIL_OPERATIONS")) return std::atoi(given);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  return all / 10;
#else
  return all;
#endif
}

}  // namespace pail::test
