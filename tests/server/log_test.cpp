// Concern: a line of the log is one line whatever peers send, and a flood of faults is few lines.
// Method: the pure parts by themselves, the journal with a clock of the test's own, and paild.
#include "server/log.hpp"

#include <spdlog/sinks/ostream_sink.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "protocol/address.hpp"
#include "server/journal.hpp"
#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

using namespace server;

constexpr LogEvent kEvent{LogLevel::warning, "an_event", "something happened"};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_CASE("what may come from a peer is escaped") {
  CHECK(escaped("plain 127.0.0.1:7245") == "plain 127.0.0.1:7245");
  CHECK(escaped("a\nb\"c\\d") == "a\\x0ab\\x22c\\x5cd");
  CHECK(escaped(std::string_view("\0\x7f\xff\x1b[31m", 8)) == "\\x00\\x7f\\xff\\x1b[31m");
  CHECK(escaped(std::string(300, 'x')) == std::string(256, 'x') + "...");
}

TEST_CASE("random bytes in every field stay one line, and JSON stays JSON") {
  Random random;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random.below(40), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random.next());
    const LogField fields[] = {{"peer", bytes}, {"count", std::uint64_t{7}}};
    const std::string text = text_line(kEvent, fields);
    CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; }));
    const auto json = nlohmann::json::parse("{" + json_members(kEvent, fields) + "}");
    CHECK(json["event"] == "an_event");
    CHECK(json["count"] == 7);
    CHECK(json["peer"].is_string());
  }
}

TEST_CASE("fields are quoted only where they must be") {
  const LogField fields[] = {{"peer", "127.0.0.1:1"}, {"reason", "two words"}, {"empty", ""}};
  CHECK(text_line(kEvent, fields) ==
        "an_event: something happened peer=127.0.0.1:1 reason=\"two words\" empty=\"\"");
}

TEST_CASE("a log has the format and the level that were asked for") {
  for (const LogFormat format : {LogFormat::text, LogFormat::json}) {
    std::ostringstream out;
    Log log({format, LogLevel::warning}, std::make_shared<spdlog::sinks::ostream_sink_st>(out));
    log.write({LogLevel::info, "quiet", "not worth a line"});
    log.write(kEvent, {{"count", std::uint64_t{3}}});
    const auto lines = lines_of(out.str());
    REQUIRE(lines.size() == 1);
    if (format == LogFormat::json) {
      const auto json = nlohmann::json::parse(lines[0]);
      CHECK(json["level"] == "warning");
      CHECK(json["event"] == "an_event");
      CHECK(json["count"] == 3);
      CHECK(json["time"].get<std::string>().back() == 'Z');
    } else {
      CHECK(lines[0].ends_with("Z warning an_event: something happened count=3"));
    }
  }
}

class JournalFixture {
 public:
  void happen(Fault fault, std::uint64_t times = 1) {
    totals_[static_cast<std::size_t>(fault)] += times;
  }
  std::vector<std::string> report(std::uint64_t now_ms) {
    out_.str("");
    journal_.report(now_ms, totals_, [this](Fault fault) { return notes.take(fault); });
    return lines_of(out_.str());
  }
  FaultNotes notes;

 private:
  std::ostringstream out_;
  Log log_{LogOptions{}, std::make_shared<spdlog::sinks::ostream_sink_st>(out_)};
  Journal journal_{log_};
  FaultTotals totals_{};
};

TEST_CASE("a kind of fault gets one line an interval, and none is left uncounted") {
  JournalFixture journal;
  CHECK(journal.report(1000).empty());
  journal.happen(Fault::table_full, 5);
  auto lines = journal.report(2000);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].ends_with("count=5"));
  for (std::uint64_t ms = 3000; ms < 62'000; ms += 1000) {
    journal.happen(Fault::table_full, 1000);
    CHECK(journal.report(ms).empty());
  }
  lines = journal.report(62'000);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].ends_with("count=59000"));
  CHECK(journal.report(200'000).empty());
}

TEST_CASE("kinds do not silence each other, and each has a name and an interval") {
  JournalFixture journal;
  for (std::size_t i = 0; i < kFaults; ++i) {
    journal.happen(static_cast<Fault>(i));
    CHECK_FALSE(kind_of(static_cast<Fault>(i)).event.name.empty());
    CHECK(kind_of(static_cast<Fault>(i)).interval_s >= 10);
  }
  CHECK(kind_of(Fault::table_full).interval_s >= 60);
  CHECK(journal.report(1000).size() == kFaults);
}

TEST_CASE("a line carries an example, and the next note is asked for only after it was told") {
  JournalFixture journal;
  FaultNote note;
  const auto address = protocol::parse_address("127.0.0.1:4242");
  note.peer = address->storage;
  note.peer_bytes = address->size_bytes;
  note.reason = "because";
  note.set_client("evil\nclient");
  CHECK(journal.notes.wants(Fault::malformed));
  journal.notes.put(Fault::malformed, note);
  CHECK_FALSE(journal.notes.wants(Fault::malformed));
  journal.happen(Fault::malformed);
  const auto lines = journal.report(1000);
  REQUIRE(lines.size() == 1);
  CHECK(
      lines[0].ends_with("count=1 peer=127.0.0.1:4242 client=\"evil\\x0aclient\" reason=because"));
  CHECK(journal.notes.wants(Fault::malformed));
}

TEST_CASE("paild logs its start, who spoke something else, and its end") {
  for (const char* io : {"auto", "epoll"}) {
    const std::string ready = "/tmp/pail-log-test." + std::to_string(::getpid()) + ".json";
    ::unlink(ready.c_str());
    Process paild({"--listen", "127.0.0.1:0", "--shards", "1", "--io", io, "--ready-file", ready,
                   "--log-format", "json"});
    REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
    const std::string address = between(Process::contents(ready), "[\"", "\"]");
    ::unlink(ready.c_str());
    for (int i = 0; i < 20; ++i) {
      RawClient client(address);
      REQUIRE(client.send("GET /secret-key HTTP/1.1\r\n\r\n"));
      CHECK(client.wait_for_end());
    }
    CHECK(eventually([&] { return paild.output().find("refused_hello") != std::string::npos; }));
    paild.signal(SIGTERM);
    CHECK(paild.exit_code() == 0);

    std::vector<std::string> events;
    for (const std::string& line : lines_of(paild.output())) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_discarded() || !json.is_object()) continue;  // the welcome
      events.push_back(json["event"]);
      if (json["event"] == "refused_hello") {
        CHECK(json["peer"].get<std::string>().starts_with("127.0.0.1:"));
        CHECK(json["reason"].get<std::string>().find("HELLO") != std::string::npos);
      }
    }
    for (const char* event : {"listening", "io", "start", "refused_hello", "stop", "stopped"}) {
      CHECK(std::count(events.begin(), events.end(), event) >= 1);
    }
    CHECK(std::count(events.begin(), events.end(), "refused_hello") <= 2);
    CHECK(paild.output().find("secret-key") == std::string::npos);
  }
}

}  // namespace
}  // namespace pail::test
