// Concern: a file that people name is read to its end or refused with the reason, and whatever else
// the path names is neither waited for nor read for ever.
#include "protocol/regular_file.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

using pail::protocol::read_regular_file;

namespace {

// A path of this process, gone with it.
class Path {
 public:
  explicit Path(const char* name)
      : text_("/tmp/pail-file-test." + std::to_string(::getpid()) + "." + name) {
    ::unlink(text_.c_str());
  }
  ~Path() { ::unlink(text_.c_str()); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace

TEST_CASE("a file is read whole, up to the size that fits") {
  const Path path("file");
  std::array<char, 11> buffer{};
  for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(10, 'x')}) {
    std::ofstream(path.text(), std::ios::binary) << text;
    const auto file = read_regular_file(path.text(), buffer);
    REQUIRE(file);
    CHECK(file->text == text);
    CHECK(S_ISREG(file->mode));
  }
  std::ofstream(path.text()) << std::string(11, 'x');
  const auto larger = read_regular_file(path.text(), buffer);
  REQUIRE_FALSE(larger);
  CHECK(larger.error() == "is larger than 10 bytes");
  const Path link("link");
  REQUIRE(::symlink("/proc/self/status", link.text().c_str()) == 0);  // says that it has 0 bytes
  std::array<char, 65536> large{};
  CHECK(read_regular_file(link.text(), large)->text.starts_with("Name:"));
}

TEST_CASE("what cannot be read to its end is an error, not an empty file") {
  const Path pipe("pipe");
  REQUIRE(::mkfifo(pipe.text().c_str(), 0600) == 0);
  const struct {
    std::string path;
    const char* says;
  } cases[] = {
      {"/proc/self/mem", "cannot be read: Input/output error"},
      {"/nowhere/file", "cannot be read: No such file or directory"},
      {"", "cannot be read: No such file or directory"},
      {"/tmp", "is a directory, not a regular file"},
      {"/dev/zero", "is not a regular file"},
      {pipe.text(), "is not a regular file"},
  };
  std::array<char, 64> buffer{};
  for (const auto& wrong : cases) {
    CAPTURE(wrong.path);
    const auto file = read_regular_file(wrong.path, buffer);
    REQUIRE_FALSE(file);
    CHECK(file.error() == wrong.says);
  }
}
