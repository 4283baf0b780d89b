// Concern: the same commands come out of a stream however it is cut, and what is no RESP ends it
// before it can cost anything. Method: streams of known commands in chunks of every size, and
// broken ones.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "server/frontend/resp/command_reader.hpp"
#include "tests/frontend/resp/resp_talk.hpp"
#include "tests/support/random.hpp"

using namespace pail::frontend::resp;
using namespace pail::test;

namespace {

using Words = std::vector<std::string>;

struct Read {
  std::vector<Words> commands;
  std::string fault;
  std::size_t pending = 0;
};

// In chunks of `size`; each in memory of its own, so that a borrowed word must be read before.
Read read(const std::string& stream, std::size_t size, std::size_t limit = kMaxCommandBytes) {
  std::vector<std::byte> carry(kMaxCommandBytes);
  CommandReader reader(carry);
  reader.set_limit(limit);
  Command command;
  Read read;
  for (std::size_t at = 0; at < stream.size(); at += size) {
    const std::string chunk = stream.substr(at, size);
    reader.feed(std::as_bytes(std::span(chunk)));
    std::vector<std::pair<std::string_view, std::size_t>> borrowed;
    std::vector<std::string_view> words;
    while (reader.next(command)) {
      borrowed.emplace_back(command.name(), command.count);
      words.insert(words.end(), command.words.begin(),
                   command.words.begin() + static_cast<std::ptrdiff_t>(command.count));
    }
    // Only now: all commands of a chunk must be valid at the same time.
    std::size_t first = 0;
    for (const auto& [name, count] : borrowed) {
      Words& one = read.commands.emplace_back();
      for (std::size_t i = 0; i < count; ++i) one.emplace_back(words[first + i]);
      CHECK(one.front() == name);
      first += count;
    }
    if (!reader.fault().empty()) break;
    reader.end_chunk();
  }
  read.fault = reader.fault();
  read.pending = reader.pending_bytes();
  return read;
}

}  // namespace

TEST_CASE("arrays and lines, whole and in pieces of every size") {
  const std::string key = {'\0', '\r', '\n', '\xFF', '*', '3'};
  const std::string stream = resp_array({"CL.THROTTLE", key, "15", "30", "60"}) + "PING\r\n" +
                             "\r\n*0\r\n*-1\r\n" + "  get\t a  \n" + resp_array({"ECHO", ""}) +
                             "set \"a b\" 'c\\d'\r\n" + resp_array({std::string(3000, 'x'), "y"}) +
                             "quit\n";
  const std::vector<Words> expected = {{"CL.THROTTLE", key, "15", "30", "60"},
                                       {"PING"},
                                       {"get", "a"},
                                       {"ECHO", ""},
                                       {"set", "a b", "c\\d"},
                                       {std::string(3000, 'x'), "y"},
                                       {"quit"}};
  for (std::size_t size = 1; size <= stream.size(); size += size < 200 ? 1 : 97) {
    CAPTURE(size);
    const Read got = read(stream, size);
    CHECK(got.fault == "");
    CHECK(got.commands == expected);
    CHECK(got.pending == 0);
  }
}

TEST_CASE("what is no RESP is refused, and nothing behind it is read") {
  const std::pair<std::string, std::string> wrong[] = {
      {"*x\r\n", "invalid multibulk length"},
      {"*1\n$4\r\nPING\r\n", "invalid multibulk length"},
      {"*-2\r\n", "invalid multibulk length"},
      {"*123456\r\n", "invalid multibulk length"},
      {"*65\r\n", "a command has 64 words at most"},
      {"*1\r\nPING\r\n", "expected '$' before each word"},
      {"*1\r\n$x\r\n", "invalid bulk length"},
      {"*1\r\n$-1\r\n", "invalid bulk length"},
      {"*1\r\n$999999999999\r\n", "invalid bulk length"},
      {"*1\r\n$16384\r\n", "a command is at most 16384 bytes, 1024 before AUTH"},
      {"*1\r\n$3\r\nPING\r\n", "a word is longer than its length says"},
      {"\x16\x03\x01\x02", "this is no command"},
      {"\xFFPING\r\n", "this is no command"},
      {"set \"a\r\n", "unbalanced quotes in request"},
      {"set \"a\"b\r\n", "unbalanced quotes in request"},
      {"set \"\\n\"\r\n", "no escapes in a line: send an array of bulk strings"},
      {"POST /x HTTP/1.1\r\n", "this is HTTP, and here RESP is spoken"},
      {"post x\r\n", "this is HTTP, and here RESP is spoken"},
      {"Host: example.com\r\n", "this is HTTP, and here RESP is spoken"},
      {"GET / HTTP/1.1\r\n", "this is HTTP, and here RESP is spoken"},
      {"DELETE k HTTP/1.0\n", "this is HTTP, and here RESP is spoken"},
  };
  for (const auto& [bytes, fault] : wrong) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
      CAPTURE(bytes);
      CAPTURE(size);
      const Read got = read("PING\r\n" + bytes + "PING\r\n", size);
      CHECK(got.commands == std::vector<Words>{{"PING"}});
      CHECK(got.fault == fault);
    }
  }
}

TEST_CASE("no command is larger than the limit, however it comes") {
  for (const std::size_t limit : {kMaxStrangerBytes, kMaxCommandBytes}) {
    std::string largest;
    for (std::size_t word = limit; largest.empty() || largest.size() > limit; --word) {
      largest = resp_array({std::string(word, 'x')});
    }
    REQUIRE(largest.size() + 2 > limit);
    for (const std::size_t size : {std::size_t{7}, std::size_t{1000}, std::size_t{100'000}}) {
      CAPTURE(limit);
      CAPTURE(size);
      CHECK(read(largest, size, limit).commands.size() == 1);
      CHECK(read(resp_array({std::string(limit - 9, 'x')}), size, limit).fault != "");
      CHECK(read(std::string(limit - 1, 'x') + "\n", size, limit).commands.size() == 1);
      CHECK(read(std::string(limit + 1, 'x'), size, limit).fault != "");
      // Never a line end: the reader does not wait for it for ever.
      CHECK(read(std::string(3 * limit, 'x'), size, limit).fault != "");
    }
  }
}

TEST_CASE("random commands in random pieces") {
  Random random;
  for (int n = 0; n < 300; ++n) {
    std::string stream;
    std::vector<Words> expected;
    for (std::size_t i = random.between(1, 20); i > 0; --i) {
      Words words;
      for (std::size_t j = random.between(1, 8); j > 0; --j) {
        std::string word(random.between(0, random.one_in(10) ? 1500 : 12), '\0');
        for (char& c : word) c = static_cast<char>(random.next());
        words.push_back(word);
      }
      stream += resp_array(words);
      expected.push_back(std::move(words));
    }
    const Read got = read(stream, random.between(1, stream.size()));
    CHECK(got.fault == "");
    CHECK(got.commands == expected);
  }
}
