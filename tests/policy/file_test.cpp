// The policy file: what it may say, that what is written can be read again, and that each mistake
// is answered with its line, what is wrong, and what would be right.
//
// The faulty files are in faulty_files.hpp, a hundred and more, each with one mistake of its kind.
#include "server/policy/file.hpp"

#include <doctest/doctest.h>

#include <set>

#include "server/policy/write.hpp"
#include "tests/policy/faulty_files.hpp"

namespace pail::policy {
namespace {

using engine::Algorithm;
using engine::WindowRule;

File parse(std::string_view text) {
  const auto file = parse_file(text);
  if (!file) FAIL(format("file", file.error()));
  return *file;
}

TEST_CASE("a file of everything") {
  const File file = parse(R"(
[server]
listen = ["127.0.0.1:0", "unix:/tmp/x"]
shards = 2
pin = true

[defaults]
max_debt = 7

[[policy]]
name = "api"
rate = "100/s"
burst = 200
reserve = [20, 5]
lease = "200ms/25%"
[[policy.tier]]
name = "gold"
rate = "1000/s"
[[policy.override]]
key = "al\"ice"
tier = "gold"
[[policy.override]]
key = "mallory"
rate = "5/s"
reserve = 0
expires = 2026-12-24T18:00:00+01:00

[[policy]]
name = "jobs"
mode = "shadow"
percent = 10
algorithm = "leaky_bucket"
rate = "3/250ms"
max_wait = "2s"

[[policy]]
name = "plan"
algorithm = "fixed"
limit = 1000
window = "month"
anchor = 15
reserve = 10

[[policy]]
name = "render"
algorithm = "concurrency"
limit = 10
ttl = "30s"
)");
  REQUIRE(file.settings.size() == 3);
  const auto list = to_list(file.policies, 0);
  REQUIRE(list);
  const auto* const specs = &list->policies;
  REQUIRE(specs->size() == 5);
  const auto& api = specs->at(0);
  CHECK(api.name == "api");
  CHECK(api.id == protocol::policy_id("api"));
  CHECK(api.rate == engine::Rate{1'000'000'000, 100, 200});
  CHECK(api.reserve == std::array<std::uint32_t, 4>{20, 5, 0, 0});
  CHECK(api.max_debt == 7);
  CHECK(api.lease == pail::engine::LeaseTerms{200'000'000, 25, 8});
  const auto& gold = specs->at(1);
  CHECK(gold.name == "api/gold");
  CHECK(gold.identity == api.id);
  CHECK(gold.rate == engine::Rate{1'000'000'000, 1000, 1000});
  CHECK(gold.reserve == api.reserve);
  const auto& jobs = specs->at(2);
  CHECK(jobs.algorithm == Algorithm::leaky_bucket);
  CHECK(jobs.rate == engine::Rate{250'000'000, 3, 3});
  CHECK(jobs.max_wait_ns == 2'000'000'000);
  const auto& plan = specs->at(3);
  CHECK(plan.window == WindowRule::month(15));
  CHECK(plan.limit == 1000);
  CHECK(plan.reserve[0] == 10);
  CHECK(plan.max_debt == 7);
  const auto& render = specs->at(4);
  CHECK(render.window == WindowRule::every(30));
  CHECK(render.max_debt == 0);

  // What is written reads as the same.
  const auto list_again = to_list(parse(write_policies(file.policies)).policies, 0);
  REQUIRE(list_again);
  const auto* const again = &list_again->policies;
  REQUIRE(again->size() == specs->size());
  for (std::size_t i = 0; i < specs->size(); ++i) {
    CAPTURE(specs->at(i).name);
    CHECK(again->at(i).name == specs->at(i).name);
    CHECK(again->at(i).algorithm == specs->at(i).algorithm);
    CHECK(again->at(i).rate == specs->at(i).rate);
    CHECK(again->at(i).limit == specs->at(i).limit);
    CHECK(again->at(i).window == specs->at(i).window);
    CHECK(again->at(i).reserve == specs->at(i).reserve);
    CHECK(again->at(i).max_wait_ns == specs->at(i).max_wait_ns);
    CHECK(again->at(i).max_debt == specs->at(i).max_debt);
    CHECK(again->at(i).lease == specs->at(i).lease);
    CHECK(again->at(i).identity == specs->at(i).identity);
    CHECK(again->at(i).enforcement == specs->at(i).enforcement);
    CHECK(again->at(i).percent == specs->at(i).percent);
  }
  REQUIRE(list->overrides.size() == 2);
  CHECK(list->overrides[0].key == "al\"ice");
  CHECK(list->overrides[0].limit.rate.count == 1000);
  CHECK(list->overrides[1].limit.rate == engine::Rate{1'000'000'000, 5, 5});
  REQUIRE(list_again->overrides.size() == 2);
  CHECK(list_again->overrides[1].limit.rate == engine::Rate{1'000'000'000, 5, 5});
  const auto later = to_list(file.policies, file.policies[0].overrides[1].expires_s);
  REQUIRE(later);
  CHECK(later->overrides.size() == 1);
  CHECK(format_time(next_expiry(file.policies, 0)) == "2026-12-24T17:00:00Z");
}

TEST_CASE("an empty file is a file without policies") {
  CHECK(parse("").policies.empty());
  CHECK(parse("# nothing\n").settings.empty());
}

TEST_CASE("text in quotes comes back as it was") {
  const std::string odd = "a\"b\\c\n\x01\x7F é";
  const File file = parse("[server]\nx = " + quoted(odd) + "\n");
  REQUIRE(file.settings.size() == 1);
  CHECK(file.settings[0].values.at(0) == odd);
}

TEST_CASE("each mistake is named with its line and what would be right") {
  std::set<std::string> kinds;
  for (const test::FaultyFile& faulty : test::kFaultyFiles) {
    CAPTURE(std::string(faulty.text));
    const auto file = parse_file(faulty.text);
    REQUIRE_FALSE(file);
    CAPTURE(format("file", file.error()));
    REQUIRE(file.error().size() == 1);
    CHECK(file.error()[0].line == faulty.line);
    CHECK(file.error()[0].text.find(faulty.wrong) != std::string::npos);
    CHECK(file.error()[0].text.find(faulty.right) != std::string::npos);
    kinds.insert(std::string(faulty.wrong) + "|" + faulty.right + "|" + faulty.text);
  }
  CHECK(kinds.size() >= 100);
}

TEST_CASE("all mistakes of a file are told, in its order") {
  const auto file = parse_file("[[policy]]\nname = \"b\"\nrate = 5\nbrust = 2\n\n[oops]\n");
  REQUIRE_FALSE(file);
  REQUIRE(file.error().size() == 3);
  CHECK(file.error()[0].line == 3);
  CHECK(file.error()[1].line == 4);
  CHECK(file.error()[1].text.find("is \"burst\" meant?") != std::string::npos);
  CHECK(file.error()[2].line == 6);
  const std::string text = format("p.toml", file.error());
  CHECK(text.find("p.toml:3: ") == 0);
  CHECK(text.find("\np.toml:6: ") != std::string::npos);
}

TEST_CASE("more mistakes than anybody reads are counted") {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "key" + std::to_string(i) + " = 1\n";
  const auto file = parse_file(text);
  REQUIRE_FALSE(file);
  CHECK(format("p", file.error()).find("and 5 more") != std::string::npos);
}

TEST_CASE("a file that is not there, or cannot be read to its end") {
  const auto file = read_file("/nonexistent/pail.toml");
  REQUIRE_FALSE(file);
  CHECK(file.error().find("/nonexistent/pail.toml: cannot be read: No such file") == 0);
  CHECK(read_file("/tmp").error() == "/tmp: is a directory, not a regular file");
  CHECK(read_file("/dev/zero").error() == "/dev/zero: is not a regular file");
  CHECK(read_file("/proc/self/mem").error() ==
        "/proc/self/mem: cannot be read: Input/output error");
}

}  // namespace
}  // namespace pail::policy
