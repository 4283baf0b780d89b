// Concern: a token file is read as it is meant, and whatever else the path names is refused without
// waiting and without reading on for ever.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <pail/token.hpp>

namespace {

class Files {
 public:
  Files() {
    std::string name = "/tmp/pail-token-XXXXXX";
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    directory_ = name;
  }
  ~Files() { std::filesystem::remove_all(directory_); }
  std::string with(const std::string& text) {
    const std::string path = directory_ + "/token";
    std::ofstream(path, std::ios::trunc) << text;
    return path;
  }
  std::string pipe() {
    const std::string path = directory_ + "/pipe";
    REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    return path;
  }

 private:
  std::string directory_;
};

}  // namespace

TEST_CASE("a token file is one word") {
  Files files;
  const std::string longest(256, 'x');
  CHECK(pail::token_from_file(files.with("secret")).value() == "secret");
  CHECK(pail::token_from_file(files.with("\n  secret\r\n\n")).value() == "secret");
  CHECK(pail::token_from_file(files.with(longest + "\n")).value() == longest);
  for (const std::string& text : {std::string(), std::string(" \n"), std::string("two words"),
                                  longest + "x", std::string(5000, '\n')}) {
    const auto token = pail::token_from_file(files.with(text));
    REQUIRE_FALSE(token);
    CHECK(token.error().code == pail::ErrorCode::bad_argument);
    CHECK(token.error().text.find("words") == std::string::npos);
  }
}

TEST_CASE("what is no file is neither waited for nor read to its end") {
  Files files;
  for (const std::string& path : {files.pipe(), std::string("/dev/zero"), std::string("/tmp")}) {
    const auto token = pail::token_from_file(path);
    REQUIRE_FALSE(token);
    CHECK(token.error().text.find("not a regular file") != std::string::npos);
  }
  CHECK_FALSE(pail::token_from_file("/nowhere/token"));
}
