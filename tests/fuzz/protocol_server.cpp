// What a client may send: the frame reader, HELLO and the request decoder.
#include "tests/fuzz/protocol_harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pail::test::check_server_input(std::as_bytes(std::span(data, size)));
  return 0;
}
