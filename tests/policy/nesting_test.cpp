// Concern: no file nests so deep that parsing it overflows the stack, and none that people write is
// refused for it. Method: files of each way to nest, at the bound and one beyond; strings and
// comments that look like it.
#include "server/policy/nesting.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace pail::policy {
namespace {

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

void check_refused(const std::string& text, std::uint32_t line, const char* says) {
  CAPTURE(text.substr(0, 60));
  const auto file = parse_file(text);
  REQUIRE_FALSE(file);
  REQUIRE(file.error().size() == 1);
  CHECK(file.error()[0].line == line);
  CAPTURE(file.error()[0].text);
  CHECK(file.error()[0].text.find(says) != std::string::npos);
}

TEST_CASE("a file that nests without end is refused before it is parsed") {
  constexpr std::size_t kMany = 200'000;
  const char* const kParts = "a key has more than 8 parts: write it as name = value";
  const char* const kBrackets = "brackets stand in more than 8 others";
  check_refused("\n" + repeated("a.", kMany) + "a = 1\n", 2, kParts);
  check_refused(repeated("'a' . ", kMany) + "a = 1\n", 1, kParts);
  check_refused(repeated("\"\".", kMany) + "a = 1\n", 1, kParts);
  check_refused("[" + repeated("a.", kMany) + "a]\n", 1, kParts);
  check_refused("x = 1\n[[" + repeated("a.", kMany) + "a]]\n", 2, kParts);
  check_refused("x = {" + repeated("a.", kMany) + "a = 1}\n", 1, kParts);
  check_refused("x = {b = 1, " + repeated("a.", kMany) + "a = 1}\n", 1, kParts);
  check_refused("x = " + repeated("[", kMany) + repeated("]", kMany) + "\n", 1, kBrackets);
  check_refused(repeated("[", kMany), 1, kBrackets);
  check_refused("x = " + repeated("[\n", kMany), 9, kBrackets);
  check_refused("x = " + repeated("{a = ", kMany), 1, kBrackets);
  check_refused("x = " + repeated("[{a = ", kMany), 1, kBrackets);
  // Behind each kind of text and of its end.
  for (const char* front :
       {"a = \"\\\"\"\n", "a = '\\'\n", "a = \"\"\"\n\"\"\"\"\"\n", "a = ''''''\n",
        "a = '''''\n'''\n", "# \" ' \"\"\"\n", "a = \"\"\n", "a = \"#\"\n"}) {
    CAPTURE(std::string(front));
    const auto fault = fault_in_nesting(front + repeated("a.", kMany) + "a = 1\n");
    REQUIRE(fault);
    const std::string text = front;
    CHECK(fault->line == 1 + std::count(text.begin(), text.end(), '\n'));
  }
}

TEST_CASE("what looks like nesting and is none") {
  CHECK_FALSE(fault_in_nesting(repeated("a.", kMaxKeyParts - 1) + "a = 1\n"));
  CHECK(fault_in_nesting(repeated("a.", kMaxKeyParts) + "a = 1\n"));
  CHECK_FALSE(fault_in_nesting(repeated("[", kMaxBrackets)));
  CHECK(fault_in_nesting(repeated("[", kMaxBrackets + 1)));
  const std::string dots(100, '.');
  const std::string brackets(100, '[');
  const std::string deep = dots + brackets;
  for (const std::string& text :
       {"a = \"" + deep + "\\\"" + deep + "\"\n", "a = '" + deep + "'\n", "# " + deep + "\n",
        "a = \"\"\"\n\"" + deep + "\\\"\"\"" + deep + "\"\"\"\n",
        "a = '''" + deep + "\n'" + deep + "'''\n", "x = 1 # \"\n# '''" + deep + "\n",
        "\"" + deep + "\" = 1\n", std::string("a = \"")}) {
    CAPTURE(text);
    CHECK_FALSE(fault_in_nesting(text));
  }
  // Lists of any length, and any number of tables.
  CHECK_FALSE(fault_in_nesting("a = [" + repeated("[1.5, 2.5], {b.c = 1},\n", 1000) + "]\n"));
  CHECK_FALSE(fault_in_nesting(repeated("[[policy.tier]]\na.b = 1.5\n", 1000)));
}

}  // namespace
}  // namespace pail::policy
