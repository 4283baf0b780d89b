// The store of a running server: each change is applied whole or not at all, lies above the file,
// is remembered, and can be taken back. The engine is a function that the test looks into, or that
// refuses; time is the test's.
#include "server/policy/store.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "server/policy/words.hpp"
#include "server/policy/write.hpp"

namespace pail::policy {
namespace {

using Words = std::vector<std::string>;

struct Fixture {
  explicit Fixture(const std::string& text) {
    write(text);
    const auto read = read_file(path);
    if (!read) FAIL(read.error());
    store = std::make_unique<Store>(
        path, read->policies, std::vector<Definition>{},
        [this](const PolicyList& list) -> tl::expected<std::uint32_t, std::string> {
          if (is_refusing) return tl::unexpected(std::string("the engine refuses"));
          in_force = list;
          return ++version;
        },
        [this] { return now_s; });
  }
  ~Fixture() { ::unlink(path.c_str()); }
  void write(const std::string& text) const { std::ofstream(path) << text; }
  [[nodiscard]] const engine::PolicySpec* find(const std::string& name) const {
    const auto found = std::ranges::find_if(in_force.policies,
                                            [&](const auto& spec) { return spec.name == name; });
    return found == in_force.policies.end() ? nullptr : &*found;
  }

  std::string path = "/tmp/pail-store-test." + std::to_string(::getpid()) + ".toml";
  PolicyList in_force;
  std::uint32_t version = 1;
  bool is_refusing = false;
  std::int64_t now_s = 1'800'000'000;
  std::unique_ptr<Store> store;
};

constexpr const char* kApi =
    "[[policy]]\nname = \"api\"\nrate = \"100/s\"\n[[policy.tier]]\nname = \"gold\"\nrate = "
    "\"1000/s\"\n";

TEST_CASE("changes lie above the file, survive a reload, and are taken back") {
  Fixture test(kApi);
  CHECK(test.store->set("api", {"rate=200/s", "mode=shadow", "percent=10"}) == 2);
  REQUIRE(test.find("api") != nullptr);
  CHECK(test.find("api")->rate == engine::Rate{1'000'000'000, 200, 200});
  CHECK(test.find("api")->enforcement == engine::Enforcement::shadow);
  CHECK(test.find("api")->percent == 10);
  CHECK(test.find("api/gold")->rate.count == 1000);
  CHECK(test.store->is_changed("api"));
  test.write("[[policy]]\nname = \"api\"\nrate = \"1/s\"\nburst = 7\nmax_debt = 3\n");
  CHECK(test.store->reload("SIGHUP") == 3);
  CHECK(test.find("api")->rate == engine::Rate{1'000'000'000, 200, 200});
  CHECK(test.find("api")->max_debt == 3);
  CHECK(test.find("api/gold") == nullptr);
  CHECK(test.store->set("api", {"reset"}) == 4);
  CHECK(test.find("api")->rate == engine::Rate{1'000'000'000, 1, 7});
  CHECK_FALSE(test.store->is_changed("api"));
  CHECK_FALSE(test.store->set("api", {"reset"}));
}

TEST_CASE("what becomes of unknown policies is the file's, unless a flag says it") {
  using Rule = engine::UnknownPolicy::Rule;
  Fixture test(kApi);
  test.write(std::string("unknown_policy = \"default:api\"\n") + kApi);
  CHECK(test.store->reload("SIGHUP") == 2);
  CHECK(test.in_force.unknown.rule == Rule::by_default);
  CHECK(test.in_force.unknown.id == protocol::policy_id("api"));
  CHECK(write_unknown(test.store->unknown()) == "unknown_policy = \"default:api\"\n\n");
  CHECK(test.store->set("api", {"rate=5/s"}) == 3);
  CHECK(test.in_force.unknown.rule == Rule::by_default);
  test.write(kApi);
  CHECK(test.store->reload("SIGHUP") == 4);
  CHECK(test.in_force.unknown.rule == Rule::refuse);
  CHECK(test.store->rollback(2) == 5);
  CHECK(test.in_force.unknown.rule == Rule::by_default);
  PolicyList list;
  Store by_flag(
      test.path, {}, {},
      [&](const PolicyList& now) -> tl::expected<std::uint32_t, std::string> {
        list = now;
        return 2;
      },
      [] { return std::int64_t{0}; }, Unknown{Rule::admit}, true);
  CHECK(by_flag.reload("SIGHUP") == 2);
  CHECK(list.unknown.rule == Rule::admit);
}

TEST_CASE("a new policy, of any kind, by command alone") {
  Fixture test(kApi);
  CHECK(test.store->set("plan", {"limit=1000", "window=month", "anchor=15", "algorithm=fixed"}));
  CHECK(test.find("plan")->window == engine::WindowRule::month(15));
  CHECK(test.store->set("render", {"algorithm=concurrency", "limit=10", "ttl=30s"}));
  CHECK(test.store->set("jobs", {"algorithm=leaky", "rate=10/s", "burst=1", "max_wait=2s"}));
  CHECK(test.store->set("vip", {"rate=9/s", "reserve=5/2", "max_debt=4"}));
  CHECK(test.find("vip")->reserve == std::array<std::uint32_t, 4>{5, 2, 0, 0});
  // What is exported reads as the same.
  const auto file = parse_file(write_policies(test.store->definitions()));
  REQUIRE(file);
  const auto list = to_list(file->policies, test.now_s);
  REQUIRE(list);
  CHECK(list->policies.size() == test.in_force.policies.size());
}

TEST_CASE("what is wrong says so, and changes nothing") {
  Fixture test(kApi);
  struct {
    Words words;
    const char* says;
  } const cases[] = {
      {{}, "nothing is set"},
      {{"rate=fast"}, "has no period"},
      {{"rate"}, "has no period"},
      {{"colour=red"}, "nothing that a policy of this kind has"},
      {{"burst=0"}, "at least 1"},
      {{"limit=5"}, "rate = \"100/s\""},
      {{"mode=dry"}, "enforce, shadow or off"},
      {{"percent=101"}, "0 to 100"},
      {{"percent=ten"}, "0 to 100"},
      {{"reserve=1/2/3/4/5"}, "4 at most"},
      {{"reserve=500"}, "more than the limit"},
      {{"algorithm=round"}, "no kind of limit"},
      {{"algorithm=fixed", "limit=5"}, "there is no window"},
      {{"max_wait=2s"}, "leaky"},
  };
  for (const auto& wrong : cases) {
    const auto version = test.store->set("api", wrong.words);
    CAPTURE(std::string(wrong.says));
    REQUIRE_FALSE(version);
    CAPTURE(version.error());
    CHECK(version.error().find(wrong.says) != std::string::npos);
  }
  CHECK_FALSE(test.store->set("a b", {"rate=1/s"}));
  CHECK_FALSE(test.store->set("new", {"burst=5"}));
  CHECK_FALSE(test.store->set("api/gold", {"rate=1/s"}));  // a tier has this name
  test.write("[[policy]]\nname = \"api\"\nrate = 5\n");
  const auto reloaded = test.store->reload("SIGHUP");
  REQUIRE_FALSE(reloaded);
  CHECK(reloaded.error().find(test.path + ":3: ") == 0);
  test.is_refusing = true;
  CHECK(test.store->set("api", {"rate=5/s"}).error() == "the engine refuses");
  CHECK(test.store->version() == 1);
  CHECK(test.version == 1);
  CHECK(test.store->history().size() == 1);
  CHECK(test.store->definitions()[0].numbers.rate->count == 100);
}

TEST_CASE("a reload that no longer fits what was changed changes nothing") {
  Fixture test(kApi);
  CHECK(test.store->override_key("api", "alice", {"tier=gold"}));
  test.write("[[policy]]\nname = \"api\"\nrate = \"1/s\"\n");  // the tier is gone
  CHECK_FALSE(test.store->reload("SIGHUP"));
  CHECK(test.find("api")->rate.count == 100);
}

TEST_CASE("overrides, and their end") {
  Fixture test(kApi);
  CHECK(test.store->override_key("api", "alice", {"rate=500/s", "for=1h"}));
  CHECK(test.store->override_key("api", "bob", {"tier=gold"}));
  REQUIRE(test.in_force.overrides.size() == 2);
  CHECK(test.in_force.overrides[0].limit.rate == engine::Rate{1'000'000'000, 500, 500});
  CHECK_FALSE(test.store->tick());
  test.now_s += 3599;
  CHECK_FALSE(test.store->tick());
  test.now_s += 1;
  CHECK(test.store->tick());
  CHECK_FALSE(test.store->tick());
  REQUIRE(test.in_force.overrides.size() == 1);
  CHECK(test.in_force.overrides[0].key == "bob");
  CHECK(test.store->override_key("api", "bob", {"clear"}));
  CHECK(test.in_force.overrides.empty());
  CHECK_FALSE(test.store->override_key("api", "bob", {"clear"}));
  CHECK_FALSE(test.store->override_key("nobody", "bob", {"rate=1/s"}));
  CHECK_FALSE(test.store->override_key("api", "bob", {}));
  CHECK_FALSE(test.store->override_key("api", "", {"rate=1/s"}));
  CHECK_FALSE(test.store->override_key("api", "bob", {"for=1h"}));
  CHECK_FALSE(test.store->override_key("api", "bob", {"tier=silver"}));
  CHECK_FALSE(test.store->override_key("api", "bob", {"algorithm=fixed"}));
  CHECK_FALSE(test.store->override_key("api", "bob", {"rate=1/s", "for=soon"}));
}

TEST_CASE("a scale, and its end") {
  Fixture test(kApi);
  CHECK(test.store->scale("api", "0.25", {"for=10min"}));
  CHECK(test.find("api")->rate == engine::Rate{4'000'000'000, 100, 100});
  CHECK(test.find("api/gold")->rate.period_ns == 4'000'000'000);
  test.now_s += 600;
  CHECK(test.store->tick());
  CHECK(test.find("api")->rate.period_ns == 1'000'000'000);
  CHECK(test.store->scale("api", "2", {"for=1h"}));
  CHECK(test.find("api")->rate.period_ns == 500'000'000);
  CHECK(test.store->scale("api", "1", {}));
  CHECK(test.find("api")->rate.period_ns == 1'000'000'000);
  CHECK_FALSE(test.store->scale("api", "0.5", {}));
  CHECK_FALSE(test.store->scale("api", "0.5", {"for=1"}));
  CHECK_FALSE(test.store->scale("nobody", "0.5", {"for=1h"}));
  for (const char* factor : {"", "0", "-1", "1001", "half", "1.2.3", "0.0000001", "."}) {
    CAPTURE(std::string(factor));
    CHECK_FALSE(parse_factor(factor));
  }
  CHECK(parse_factor("1000") == 1'000'000'000U);
  CHECK(parse_factor("0.000001") == 1U);
  CHECK(parse_factor("12.5") == 12'500'000U);
}

TEST_CASE("the way back") {
  Fixture test(kApi);
  CHECK(test.store->set("api", {"rate=1/s"}) == 2);
  test.write("[[policy]]\nname = \"other\"\nrate = \"5/s\"\n");
  CHECK_FALSE(test.store->rollback(9));
  CHECK(test.store->reload("SIGHUP") == 3);
  CHECK(test.find("other") != nullptr);
  CHECK(test.store->rollback(1) == 4);
  CHECK(test.find("other") == nullptr);
  CHECK(test.find("api")->rate.count == 100);
  const auto history = test.store->history();
  REQUIRE(history.size() == 4);
  CHECK(history[0].cause == "start");
  CHECK(history[1].cause == "set api rate=1/s");
  CHECK(history[3].cause == "rollback to 1");
  CHECK(history[3].number == 4);
  for (int i = 0; i < 100; ++i) CHECK(test.store->set("api", {"rate=1/s"}));
  CHECK(test.store->history().size() == Store::kMaxHistory);
}

}  // namespace
}  // namespace pail::policy
