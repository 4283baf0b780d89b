// The command `pail` as scripts and people use it: words on the command line, output, exit status.
// Method: the real program, against a real paild, and against nothing.
#include <doctest/doctest.h>

#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/command/arguments.hpp"
#include "client/command/report.hpp"
#include "tests/support/paild_process.hpp"

using namespace std::chrono_literals;
using pail::test::PaildProcess;
using pail::test::Process;

namespace {

struct Ran {
  int status = -1;
  std::string output;
};

Ran run(std::vector<std::string> words) {
  words.insert(words.begin(), pail::test::program_directory() + "/pail");
  Process process(words);
  Ran ran;
  ran.output = process.read_all();
  ran.status = process.wait();
  return ran;
}

nlohmann::json json_of(const Ran& ran) {
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  REQUIRE_FALSE(json.is_discarded());
  return json;
}

}  // namespace

TEST_CASE("take, peek, reset and ping, for people and for scripts") {
  PaildProcess paild({"--policy", "api=1/d,2"});
  const std::string& server = paild.address();

  auto ran = run({"--server", server, "take", "--rate", "1/d", "--burst", "2", "alice"});
  CHECK(ran.status == 0);
  CHECK(ran.output == "admitted: 1 taken, 1 of 2 left; full again in 1 d\n");
  ran = run({"take", "--server", server, "--rate", "1/d", "--burst", "2", "alice", "--json"});
  CHECK(ran.status == 0);
  auto json = json_of(ran);
  CHECK(json["status"] == "admitted");
  CHECK(json["admitted"] == true);
  CHECK(json["granted"] == 1);
  CHECK(json["remaining"] == 0);
  CHECK(json["limit"] == 2);
  CHECK(json["retry_after_ns"] == 0);
  CHECK(json["reset_after_ns"].get<std::int64_t>() > 86'400'000'000'000);

  ran = run({"--server", server, "take", "--rate", "1/d", "--burst", "2", "alice"});
  CHECK(ran.status == 1);
  CHECK(ran.output.starts_with("refused: 0 of 2 left; retry after "));
  ran = run({"--server", server, "--json", "take", "--rate", "1/d", "--burst", "2", "alice"});
  CHECK(ran.status == 1);
  json = json_of(ran);
  CHECK(json["status"] == "denied");
  CHECK(json["retry_after_ns"].get<std::int64_t>() > 0);
  ran = run({"--server", server, "peek", "--rate", "1/d", "--burst", "2", "alice"});
  CHECK(ran.status == 1);
  CHECK(ran.output.starts_with("would be refused: "));

  ran = run({"--server", server, "take", "--rate", "1/d", "--burst", "2", "alice", "--cost", "3",
             "--json"});
  CHECK(ran.status == 1);
  CHECK(json_of(ran)["status"] == "never");
  CHECK(json_of(ran)["retry_after_ns"].is_null());

  CHECK(run({"--server", server, "reset", "--rate", "1/d", "--burst", "2", "alice"}).status == 0);
  ran = run({"--server", server, "peek", "--rate", "1/d", "--burst", "2", "alice"});
  CHECK(ran.status == 0);
  CHECK(ran.output.starts_with("would be admitted: "));

  CHECK(run({"--server", server, "take", "--policy", "api", "bob", "--cost", "2"}).status == 0);
  CHECK(run({"--server", server, "take", "--policy", "api", "bob"}).status == 1);
  ran = run({"--server", server, "take", "--policy", "apu", "bob", "--json"});
  CHECK(ran.status == 2);
  CHECK(json_of(ran)["error"] == "unknown_policy");

  ran = run({"--server", server, "ping"});
  CHECK(ran.status == 0);
  CHECK(ran.output.starts_with(server + " answered in "));
  CHECK(json_of(run({"--server", server, "ping", "--json"}))["round_trip_ns"].get<std::int64_t>() >
        0);
}

TEST_CASE("stats as a table, as JSON, of one shard, and again and again") {
  PaildProcess paild({"--shards", "2", "--policy", "api=1/d,1", "--policy", "idle=1/d,1"});
  const std::string& server = paild.address();
  CHECK(run({"--server", server, "take", "--rate", "1/d", "alice"}).status == 0);
  CHECK(run({"--server", server, "take", "--policy", "api", "--cost", "2", "alice"}).status == 1);

  auto ran = run({"--server", server, "stats", "--json"});
  CHECK(ran.status == 0);
  const auto all = json_of(ran);
  CHECK(all["shards"] == 2);
  CHECK(all["counters"]["replies_ok"] == 1);
  CHECK(all["counters"]["replies_never"] == 1);
  CHECK(all["policies"]["api"]["never"] == 1);
  CHECK(all["policies"]["idle"]["never"] == 0);
  CHECK(all["counters"]["hellos"] == 3);
  CHECK(all["gauges"]["connections"] == 1);
  std::uint64_t of_shards = 0;
  for (const char* shard : {"1", "2"}) {
    const auto one = json_of(run({"--server", server, "stats", "--json", "--shard", shard}));
    of_shards += one["counters"]["replies_never"].get<std::uint64_t>();
  }
  CHECK(of_shards == 1);
  ran = run({"--server", server, "stats", "--shard", "3", "--json"});
  CHECK(ran.status == 2);
  CHECK(json_of(ran)["error"] == "bad_argument");

  ran = run({"--server", server, "stats"});
  CHECK(ran.status == 0);
  CHECK(ran.output.find("replies_never") != std::string::npos);
  CHECK(ran.output.find("\napi ") != std::string::npos);
  CHECK(ran.output.find("\nidle ") == std::string::npos);    // nothing was asked of it
  CHECK(ran.output.find("malformed") == std::string::npos);  // zero

  Process watching(
      {pail::test::program_directory() + "/pail", "--server", server, "stats", "--watch", "0.1"});
  bool has_rate = false;
  while (!has_rate) {
    const auto line = watching.read_line();
    REQUIRE(line);
    has_rate = line->starts_with("turns ") && line->ends_with("/s");
  }
  watching.signal(SIGTERM);
  watching.wait();
}

TEST_CASE("without --burst the burst is the count of the rate") {
  PaildProcess paild;
  const auto ran = run({"--server", paild.address(), "take", "--rate", "7/d", "k", "--json"});
  CHECK(ran.status == 0);
  CHECK(json_of(ran)["limit"] == 7);
}

TEST_CASE("whatever is neither admitted nor refused ends with status 2") {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"frobnicate"},
      {"take"},
      {"take", "k"},
      {"take", "--rate", "10", "k"},
      {"take", "--rate", "10/fortnight", "k"},
      {"take", "--rate", "-1/s", "k"},
      {"take", "--rate", "0/s", "k"},
      {"take", "--rate", "10/s", "--policy", "api", "k"},
      {"take", "--burst", "5", "k"},
      {"take", "--rate", "10/s", "--burst", "0", "k"},
      {"take", "--rate", "10/s", "--burst", "4294967296", "k"},
      {"take", "--rate", "10/s", "--burst", "4294967297", "k"},
      {"take", "--rate", "10/s", "--cost", "0", "k"},
      {"take", "--rate", "10/s", "--cost", "-1", "k"},
      {"take", "--rate", "10/s", "--cost", "1.5", "k"},
      {"take", "--rate", "10/s", "--cost", "many", "k"},
      {"take", "--rate", "10/s", "--cost", "4294967296", "k"},
      {"take", "--rate", "10/s", "--cost", "4294967297", "k"},
      {"take", "--rate", "10/s", "--priority", "4", "k"},
      {"take", "--rate", "10/s", "k", "another"},
      {"take", "--rate", "10/s", ""},
      {"take", "--rate", "10/s", "--no-such-option", "k"},
      {"--timeout-ms", "0", "ping"},
      {"--timeout-ms", "soon", "ping"},
      {"--server", "nonsense", "ping"},
      {"--server", "127.0.0.1:99999", "ping"},
      {"--server", "unix:/nowhere/pail.sock", "ping"},
      {"--server", "127.0.0.1:1", "ping"},
      {"--server", "127.0.0.1:1", "take", "--rate", "10/s", "k"},
      {"reset", "k"},
      {"ping", "k"},
      {"take", "ping"},
      {"stats", "k"},
      {"stats", "--watch", "never"},
      {"stats", "--shard", "-1"},
  };
  for (const auto& words : wrong) {
    std::string line = "pail";
    for (const std::string& word : words) line += " '" + word + "'";
    CAPTURE(line);
    CHECK(run(words).status == 2);
  }
  const auto ran = run({"--server", "127.0.0.1:1", "--json", "ping"});
  CHECK(ran.status == 2);
  CHECK(json_of(ran)["error"] == "connection_refused");
  CHECK(json_of(ran)["maybe_charged"] == false);
}

// Looked at before anything is asked of a server, so that status 2 cannot come from there.
TEST_CASE("numbers that are none, and values that are empty, are mistakes on the command line") {
  const std::vector<std::vector<const char*>> wrong{
      {"renew", "--policy", "p", "--grant", "99999999999999999999", "k"},
      {"renew", "--policy", "p", "--grant", "-1", "k"},
      {"release", "--policy", "p", "--grant", "18446744073709551616", "k"},
      {"settle", "--policy", "p", "--actual", "-1", "k"},
      {"settle", "--policy", "p", "--actual", "-18446744073709551611", "k"},
      {"stats", "--shard", "-18446744073709551615"},
      {"stats", "--watch", "nan"},
      {"stats", "--watch", "inf"},
      {"stats", "--watch", "-nan"},
      {"take", "--rate", "", "k"},
      {"take", "--policy", "", "k"},
      {"--server", "", "ping"},
      {"--token-file", "", "ping"},
      {"--token", "", "ping"},
  };
  for (std::vector<const char*> words : wrong) {
    std::string line = "pail";
    for (const char* word : words) line += " '" + std::string(word) + "'";
    CAPTURE(line);
    words.insert(words.begin(), "pail");
    const auto parsed =
        pail::command::parse_arguments(static_cast<int>(words.size()), words.data());
    CHECK(std::holds_alternative<int>(parsed));
    if (const int* status = std::get_if<int>(&parsed)) CHECK(*status == 2);
  }
  const std::vector<const char*> right{
      "pail", "renew", "--policy", "p", "--grant", "18446744073709551615", "k"};
  const auto parsed = pail::command::parse_arguments(static_cast<int>(right.size()), right.data());
  REQUIRE(std::holds_alternative<pail::command::Arguments>(parsed));
  CHECK(std::get<pail::command::Arguments>(parsed).grant == UINT64_MAX);
  const std::vector<const char*> watch{"pail", "stats", "--watch"};
  const auto watching =
      pail::command::parse_arguments(static_cast<int>(watch.size()), watch.data());
  REQUIRE(std::holds_alternative<pail::command::Arguments>(watching));
  CHECK(std::get<pail::command::Arguments>(watching).watch == 1s);
}

TEST_CASE("asking for help or the version is no mistake") {
  CHECK(run({"--help"}).status == 0);
  CHECK(run({"take", "--help"}).output.find("--rate") != std::string::npos);
  CHECK(run({"--version"}).output.starts_with("pail "));
}

TEST_CASE("durations for people are rounded up to a tenth of their unit") {
  using pail::command::text_of;
  CHECK(text_of(0ns) == "0 ns");
  CHECK(text_of(999ns) == "999 ns");
  CHECK(text_of(1us) == "1 us");
  CHECK(text_of(333'333'334ns) == "333.4 ms");
  CHECK(text_of(500ms) == "500 ms");
  CHECK(text_of(1s + 1ns) == "1.1 s");
  CHECK(text_of(90s) == "1.5 min");
  CHECK(text_of(366 * 24h) == "366 d");
}
