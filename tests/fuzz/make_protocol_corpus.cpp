// Writes the golden vectors as seeds: make_protocol_corpus DIRECTORY fills
// DIRECTORY/protocol_server and DIRECTORY/protocol_client.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "tests/support/vectors.hpp"

namespace {

void write_seed(const std::filesystem::path& directory, const pail::test::Vector& vector,
                const std::string& head) {
  std::filesystem::create_directories(directory);
  std::string file = vector.where;
  file[file.find(':')] = '_';
  std::ofstream out(directory / (file + "_" + std::to_string(head[0])), std::ios::binary);
  out << head;
  for (const std::byte b : vector.bytes) out.put(static_cast<char>(b));
  if (!out.flush()) throw std::runtime_error("cannot write to " + directory.string());
}

void write_corpus(const std::filesystem::path& root) {
  // The bytes ahead are what check_server_input and check_client_input take off: phase and chunk
  // sizes.
  const std::string open("\0\1", 2);
  const std::string hello("\1\1", 2);
  for (const char* file : {"requests.txt", "replies.txt", "hello.txt", "streams.txt"}) {
    for (const pail::test::Vector& vector : pail::test::load_vectors(file)) {
      if (vector.bytes.size() > 4000) continue;  // beyond what is worth mutating
      if (vector.message == "reply" || vector.message == "hello_reply") {
        write_seed(root / "protocol_client", vector, "\1");
      } else {
        write_seed(root / "protocol_server", vector, open);
        write_seed(root / "protocol_server", vector, hello);
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: make_protocol_corpus DIRECTORY\n", stderr), 2;
  try {
    write_corpus(argv[1]);
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "make_protocol_corpus: %s\n", error.what()), 1;
  }
  return 0;
}
