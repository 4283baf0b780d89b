// Concern: the program's promises to a shell: exit codes, texts, the shape of its JSON, exact
// counts. Method: runs of the built program, against its own echo and against servers that
// misbehave.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "bench/socket.hpp"

namespace pail::bench {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string text;  // what was written, to either output if it was merged
};

// `redirection` decides which output is read.
Outcome run(const std::string& arguments, const std::string& redirection = "2>&1",
            const std::string& environment = "") {
  const std::string command =
      fmt::format("{} {} {} {}", environment, PAIL_BENCH_PROGRAM, arguments, redirection);
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char part[4096];
  std::size_t size = 0;
  while ((size = std::fread(part, 1, sizeof part, pipe)) > 0) outcome.text.append(part, size);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("bad arguments exit with 2 and say what would be right") {
  const std::pair<const char*, const char*> cases[] = {
      {"--pipeline 0", "not in range 1 to 4096"},
      {"--connections 0", "--connections"},
      {"--connections ten", "--connections"},
      {"--threads 2 --connections 1", "every thread needs a connection"},
      {"--connections 5000", "at most 4096 a thread"},
      {"--keys 0", "--keys"},
      {"--key-size 2 --keys 257", "2 hexadecimal digits"},
      {"--key-size 1025", "--key-size"},
      {"--cost 0", "--cost"},
      {"--dist pareto", "uniform, zipf:0.99, hot"},
      {"--dist zipf:1.5", "between 0 and 1"},
      {"--rate fast", "--rate"},
      {"--rate 1/366d --burst 5", "too long"},
      {"--rate ''", "--rate: the value is empty"},
      {"--policy ''", "--policy: the value is empty"},
      {"--seed -1", "--seed"},
      {"--seed 99999999999999999999", "too large"},
      {"--requests 99999999999999999999", "too large"},
      {"engine --seed -1", "--seed"},
      {"--burst 0", "--burst"},
      {"--policy a --rate 1/s", "--policy"},
      {"--duration 5", "--duration"},
      {"--duration 0", "--duration"},
      {"--duration 1s --requests 5", "--requests"},
      {"--warmup soon", "--warmup"},
      {"--server nowhere:x", "--server"},
      {"--target postgres", "--target"},
      {"--target redis --method guess", "--method"},
      {"--target redis --policy a", "--policy"},
      {"--target redis --method incr --rate 3/250ms", "whole seconds"},
      {"--target memcached --mix peek", "--mix"},
      {"--arrival fast", "--arrival"},
      {"--arrival 5/s --trace /dev/null", "--trace"},
      {"--trace /nonexistent/trace", "cannot read"},
      {"--trace /dev/null", "no requests in it"},
      {"--mix take:50", "--mix"},
      {"--mix lease", "--mix"},
      {"--mix layers --policy a", "--layer"},
      {"--layer b --policy a", "--mix"},
      {"--mix layers --policy a --layer a", "twice"},
      {"--ramp slowly", "--ramp"},
      {"--slo p99", "no objective"},
      {"--audit --policy a", "--bound"},
      {"--bound 1/s,1", "--audit"},
      {"audit", "files"},
      {"audit /dev/null", "no audit log"},
      {"--target-pin 0", "--target-pin"},
      {"--no-such-flag", "--no-such-flag"},
      {"echo --listen 0.0.0.0:1", "loopback"},
      {"echo --listen x:y", "--listen"},
      {"engine --scenarios cold", "or refused"},
      {"engine --threads 0", "--threads"},
      {"engine --keys 0", "--keys"},
      {"engine --seconds 0", "--seconds"},
  };
  for (const auto& [arguments, expected] : cases) {
    CAPTURE(arguments);
    const Outcome outcome = run(arguments);
    CAPTURE(outcome.text);
    CHECK(outcome.exit_code == 2);
    CHECK(has(outcome.text, expected));
    CHECK(has(outcome.text, "pail-bench:"));
  }
}

TEST_CASE("help exits with 0") {
  const Outcome outcome = run("--help");
  CHECK(outcome.exit_code == 0);
  CHECK(has(outcome.text, "--pipeline"));
}

TEST_CASE("a run against the echo: exact counts, the table, the JSON") {
  const Outcome outcome =
      run("--target echo --requests 1003 --connections 4 --threads 2 --pipeline 7 --keys 50 "
          "--dist zipf:0.9 --seed 5 --json -",
          "2>/dev/null");
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.text);
  CHECK(json["total"]["sent"] == 1003);
  CHECK(json["total"]["requests"] == 1003);
  CHECK(json["total"]["admitted"] == 1003);
  CHECK(json["total"]["refused"] == 0);
  CHECK(json["total"]["errors"] == 0);
  CHECK(json["total"]["by_status"]["ok"] == 1003);
  CHECK(json["total"]["by_status"]["denied"] == 0);
  const auto& measured = json["measured"];
  CHECK(measured["requests"] == 1003);
  CHECK(measured["requests_per_s"] > 0);
  CHECK(measured["seconds"] > 0);
  // 251, 251 | 250, 251 requests a connection: the batches of 7 and one rest each.
  CHECK(measured["batches"] >= 144);
  CHECK(measured["batch_latency_us"]["p50"] > 0);
  CHECK(measured["batch_latency_us"]["max"] >= measured["batch_latency_us"]["p99.9"]);
  const auto& options = json["options"];
  CHECK(options["target"] == "echo");
  CHECK(options["connections"] == 4);
  CHECK(options["pipeline"] == 7);
  CHECK(options["distribution"] == "zipf:0.9");
  CHECK(options["limit"]["rate"] == "100/s");
  CHECK(options["seed"] == 5);
}

TEST_CASE("the table goes to the standard error") {
  const Outcome outcome = run("--target echo --requests 10", "2>&1 >/dev/null");
  CHECK(outcome.exit_code == 0);
  CHECK(has(outcome.text, "throughput"));
  CHECK(has(outcome.text, "10 sent, 10 admitted, 0 refused, 0 errors; every reply checked"));
}

TEST_CASE("an objective that was missed is exit code 3, an over-grant 4") {
  CHECK(run("--target echo --requests 10 --slo max=1h").exit_code == 0);
  const Outcome slow = run("--target echo --requests 10 --slo p50=1ns");
  CHECK(slow.exit_code == 3);
  CHECK(has(slow.text, "missed: p50"));
  // The echo admits everything.
  const Outcome generous =
      run("--target echo --requests 100 --keys 1 --rate 1/h --burst 5 --audit");
  CHECK(generous.exit_code == 4);
  CHECK(has(generous.text, "too much     key pail-key00000000: 100 tokens"));
}

TEST_CASE("two processes, each within the limit, are too much together") {
  const std::string file = fmt::format("/tmp/pail-bench-audit-{}", getpid());
  for (const char* part : {"a", "b"}) {
    const Outcome outcome = run(fmt::format(
        "--target echo --requests 3 --keys 1 --rate 1/h --burst 5 --audit --audit-log {}.{}", file,
        part));
    CAPTURE(outcome.text);
    CHECK(outcome.exit_code == 0);
  }
  const Outcome alone = run(fmt::format("audit {}.a", file));
  CHECK(alone.exit_code == 0);
  CHECK(has(alone.text, "never too much"));
  const Outcome together = run(fmt::format("audit {0}.a {0}.b", file));
  CHECK(together.exit_code == 4);
  CHECK(has(together.text, "6 tokens"));
  for (const char* part : {".a", ".b"}) std::remove((file + part).c_str());
}

TEST_CASE("files: the time series, the percentiles, the picture") {
  const std::string file = fmt::format("/tmp/pail-bench-files-{}", getpid());
  const bool has_gnuplot = std::system("gnuplot --version >/dev/null 2>&1") == 0;
  const Outcome outcome =
      run(fmt::format("--target echo --duration 500ms --csv {0}.csv --hgrm {0}.hgrm{1}", file,
                      has_gnuplot ? fmt::format(" --plot {}.png", file) : ""));
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const auto content = [&file](const char* ending) {
    std::ifstream stream(file + ending);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  CHECK(content(".csv").starts_with("at_s,is_measured,requests_per_s"));
  CHECK(std::ranges::count(content(".csv"), '\n') >= 2);
  CHECK(has(content(".hgrm"), "#[Max     ="));
  if (has_gnuplot) {
    CHECK(content(".png").starts_with("\x89PNG"));
  } else {
    MESSAGE("SKIPPED: gnuplot is not installed");
  }
  for (const char* ending : {".csv", ".hgrm", ".png"}) std::remove((file + ending).c_str());
  const Outcome without =
      run("--target echo --requests 1 --plot x.png", "2>&1", "PATH=/nonexistent");
  CHECK(without.exit_code == 2);
  CHECK(has(without.text, "gnuplot is not installed"));
}

TEST_CASE("the engine beside the bare table: every row is there and counts") {
  const Outcome outcome =
      run("engine --keys 1000 2000 --threads 1 2 --rounds 2 --seconds 0.01 --growth-keys 100000 "
          "--pin -1 --json -",
          "2>/dev/null");
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.text);
  const auto& speed = json["speed"];
  REQUIRE(speed.size() == 2 * 2 * 4);
  CHECK(speed[0]["keys"] == 1000);
  CHECK(speed[0]["scenario"] == "uniform");
  CHECK(speed[0]["threads"] == 1);
  CHECK(speed[15]["keys"] == 2000);
  CHECK(speed[15]["scenario"] == "refused");
  CHECK(speed[15]["threads"] == 2);
  for (const auto& row : speed) {
    CHECK(row["bare_per_s"] > 0);
    CHECK(row["engine_per_s"] > 0);
    CHECK(row["ratio_least"] <= row["ratio"]);
    CHECK(row["ratio"] <= row["ratio_most"]);
  }
  REQUIRE(json["growth"].size() == 2);
  for (const auto& row : json["growth"]) {
    CHECK(row["keys"] == 100'000);
    CHECK(row["growing"]["turns"] >= 100'000 / 16);
    CHECK(row["growing"]["turns"] == row["steady"]["turns"]);
    CHECK(row["growing"]["max_us"] >= row["growing"]["p50_us"]);
    // Below 16 bytes a key nothing was measured. (The first table may not have been resident
    // before.)
    CHECK(row["bytes_a_key"]["most"] >= row["bytes_a_key"]["mean"]);
  }
  CHECK(json["growth"][0]["bytes_a_key"]["last"] >= 16);
}

TEST_CASE("compare: its rows, its JSON, and what is missing said aloud") {
  // Without a PATH there are no rivals, whatever is installed here.
  const Outcome outcome =
      run("compare --quick --rounds 2 --duration 10ms --keys 2000 --server-cpu -1 "
          "--bench-cpu -1 --json /dev/stderr",
          "2>&1 >/dev/null", "PATH=/nonexistent");
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  const auto json = nlohmann::json::parse(outcome.text.substr(outcome.text.find("\n{\n") + 1));
  REQUIRE(json["rows"].size() == 8);
  double pail_most = 0;
  double echo_most = 0;
  for (const auto& row : json["rows"]) {
    CHECK(row["targets"].size() == 3);
    // On a machine that is busy enough, so short a run may see no answer in its time; not all do.
    pail_most = std::max(pail_most, row["targets"]["pail"]["requests_per_s"]["most"].get<double>());
    const auto& ratio = row["targets"]["echo"]["pail_ratio"];
    echo_most = std::max(echo_most, ratio["most"].get<double>());
    CHECK(ratio["least"] <= ratio["median"]);
    CHECK(ratio["median"] <= ratio["most"]);
  }
  CHECK(pail_most > 0);
  CHECK(echo_most > 0);
  CHECK(json["targets"]["pail"]["bytes_a_key"] > 0);
  CHECK(json["targets"]["pail throttle"]["bytes_a_key"] > 0);
  const std::string notes = json["notes"].dump();
  CHECK(has(notes, "redis lua: skipped, not installed (apt-get install redis-server)"));
  CHECK(has(notes, "memcached: skipped, not installed (apt-get install memcached)"));
}

TEST_CASE("compare against what is installed") {
  const bool has_any = std::system("command -v redis-server memcached >/dev/null 2>&1") == 0;
  if (!has_any) {
    MESSAGE("SKIPPED: neither redis-server nor memcached is installed");
    return;
  }
  const Outcome outcome =
      run("compare --quick --rounds 1 --duration 10ms --keys 2000 --server-cpu -1 "
          "--bench-cpu -1",
          "2>&1");
  CAPTURE(outcome.text);
  REQUIRE(outcome.exit_code == 0);
  CHECK((has(outcome.text, "| pail / redis lua |") || has(outcome.text, "| pail / memcached |")));
  CHECK(has(outcome.text, "bytes a key"));
}

TEST_CASE("no server: exit 1 and the address") {
  const Outcome outcome = run("--server unix:/nonexistent/pail.sock --requests 1");
  CHECK(outcome.exit_code == 1);
  CHECK(has(outcome.text, "cannot connect to unix:/nonexistent/pail.sock"));
}

// A server for one connection that answers HELLO and then the first batch with `answer`.
class Impostor {
 public:
  explicit Impostor(std::vector<std::byte> answer)
      : listener_(std::move(*listen_on(*protocol::parse_address("127.0.0.1:0"), ""))),
        thread_([this, answer = std::move(answer)] { serve(answer); }) {}
  ~Impostor() { thread_.join(); }
  [[nodiscard]] std::string address() const { return address_of(listener_)->text; }

 private:
  void serve(const std::vector<std::byte>& answer) {
    const Socket peer(accept(listener_.fd(), nullptr, nullptr));
    std::array<std::byte, 4096> bytes;
    if (recv(peer.fd(), bytes.data(), bytes.size(), 0) <= 0) return;
    protocol::HelloReply hello;
    hello.tag = 1;
    const std::size_t size = protocol::encode(hello, bytes);
    send(peer.fd(), bytes.data(), size, MSG_NOSIGNAL);
    if (recv(peer.fd(), bytes.data(), bytes.size(), 0) <= 0) return;
    send(peer.fd(), answer.data(), answer.size(), MSG_NOSIGNAL);
    if (answer.empty()) return;  // closes
    while (recv(peer.fd(), bytes.data(), bytes.size(), 0) > 0) {
    }
  }

  Socket listener_;
  std::thread thread_;
};

std::vector<std::byte> answer_with(std::uint32_t tag, protocol::Status status,
                                   std::string_view text = "") {
  protocol::Reply reply;
  reply.op = protocol::Op::take;
  reply.status = status;
  reply.tag = tag;
  reply.body = std::as_bytes(std::span(text));
  std::vector<std::byte> bytes(512);
  bytes.resize(protocol::encode(reply, bytes));
  return bytes;
}

TEST_CASE("a server that misbehaves fails the run, in words") {
  const auto run_against = [](std::vector<std::byte> answer) {
    const Impostor impostor(std::move(answer));
    return run(fmt::format("--server {} --connections 1 --requests 1", impostor.address()));
  };
  SUBCASE("a wrong tag") {
    const Outcome outcome = run_against(answer_with(2, protocol::Status::ok));
    CHECK(outcome.exit_code == 1);
    CHECK(has(outcome.text, "out of order"));
    CHECK(has(outcome.text, "expected tag 1"));
  }
  SUBCASE("a closed connection") {
    const Outcome outcome = run_against({});
    CHECK(outcome.exit_code == 1);
    CHECK(has(outcome.text, "closed it with 1 requests unanswered"));
  }
  SUBCASE("an error status") {
    const Outcome outcome =
        run_against(answer_with(1, protocol::Status::unknown_policy, "no such policy"));
    CHECK(outcome.exit_code == 1);
    CHECK(has(outcome.text, "unknown_policy"));
    CHECK(has(outcome.text, "1 requests were not decided"));
  }
  SUBCASE("a refusal is no failure") {
    const Outcome outcome = run_against(answer_with(1, protocol::Status::denied));
    CHECK(outcome.exit_code == 0);
    CHECK(has(outcome.text, "1 sent, 0 admitted, 1 refused"));
  }
}

}  // namespace
}  // namespace pail::bench
