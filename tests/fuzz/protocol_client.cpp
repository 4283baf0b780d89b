// What a server may send: the frame reader and the decoders of replies.
#include "tests/fuzz/protocol_harness.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pail::test::check_client_input(std::as_bytes(std::span(data, size)));
  return 0;
}
