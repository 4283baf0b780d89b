// What a server may be sent, all the way: frames, decisions on a live engine, replies.
#include <sys/prctl.h>

#include "tests/fuzz/native_harness.hpp"

// A server an input: huge pages would be zeroed for each.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 ? 0 : 1;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pail::test::check_native_input(std::as_bytes(std::span(data, size)));
  return 0;
}
