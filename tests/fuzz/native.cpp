// What a server may be sent, all the way: frames, decisions on a live engine, replies.
#include "tests/fuzz/native_harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pail::test::check_native_input(std::as_bytes(std::span(data, size)));
  return 0;
}
