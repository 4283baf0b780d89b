// Writes the golden vectors, and sessions of requests that meet, as seeds: make_corpus DIRECTORY
// fills a directory in it for each fuzzer.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "tests/fuzz/native_harness.hpp"
#include "tests/fuzz/resp_harness.hpp"
#include "tests/support/vectors.hpp"

namespace {

using namespace pail::test;

// `head` is what the harness takes off an input before the stream begins: phase, chunk sizes,
// clock.
void write_seed(const std::filesystem::path& directory, const std::string& name,
                const std::string& head, const Octets& stream) {
  std::filesystem::create_directories(directory);
  std::ofstream out(directory / name, std::ios::binary);
  out << head;
  for (const std::byte b : stream) out.put(static_cast<char>(b));
  if (!out.flush()) throw std::runtime_error("cannot write to " + directory.string());
}

void write_resp_corpus(const std::filesystem::path& root) {
  std::size_t number = 0;
  for (const std::string& session : resp_sessions()) {
    const auto bytes = pail::protocol::as_body(session);
    for (const char size : {'\0', '\7', '\xFF'}) {
      for (const char flags : {'\0', '\1', '\2'}) {
        write_seed(root / "resp", std::to_string(number++), {size, flags},
                   Octets(bytes.begin(), bytes.end()));
      }
    }
  }
}

void write_corpus(const std::filesystem::path& root) {
  write_resp_corpus(root);
  for (const char* file : {"requests.txt", "replies.txt", "hello.txt", "streams.txt"}) {
    for (const Vector& vector : load_vectors(file)) {
      if (vector.bytes.size() > 4000) continue;  // beyond what is worth mutating
      std::string name = vector.where;
      name[name.find(':')] = '_';
      if (vector.message == "reply" || vector.message == "hello_reply") {
        write_seed(root / "protocol_client", name, "\1", vector.bytes);
        continue;
      }
      write_seed(root / "protocol_server", name + "_open", std::string("\0\1", 2), vector.bytes);
      write_seed(root / "protocol_server", name + "_hello", "\1\1", vector.bytes);
      const bool begins_with_hello = vector.message == "hello" || vector.text("phase") == "hello";
      write_seed(root / "native", name, begins_with_hello ? std::string("\0\1", 2) : "\1\1",
                 vector.bytes);
    }
  }
  Random random;
  for (unsigned flags = 1; flags < 0x60; flags += 2) {
    const std::string head = {static_cast<char>(flags), static_cast<char>(random.next())};
    write_seed(root / "native", "session_" + std::to_string(flags), head,
               native_session(random, random.between(2, 40)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: make_corpus DIRECTORY\n", stderr), 2;
  try {
    write_corpus(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "make_corpus: %s\n", error.what()), 1;
  }
  return 0;
}
