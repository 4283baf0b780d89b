// The story that Pail is for, played with real processes: one paild, three gateways, one shared
// limit.
//
//   three_gateways [--bench DURATION]      default 5s; exit status 0 only if every expectation held
//
// Eight requests "at once" take a few milliseconds in truth. The limit refills one token in half a
// second, so the expectation (five of eight) is sound only if all eight lay within less than that.
// The gateways report when they sent and when they were answered, on the machine's one monotonic
// clock; where a busy machine stretched the eight over too long a time the round proves nothing,
// and is played again, said openly, for another partner.
#include <fmt/format.h>

#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/paild_process.hpp"
#include "tests/support/process.hpp"

namespace {

using namespace std::chrono_literals;
using pail::test::PaildProcess;
using pail::test::Process;
using std::chrono::nanoseconds;

constexpr const char* kPolicy = "partner";
constexpr std::uint32_t kBurst = 5;
constexpr nanoseconds kTokenTime = 500ms;  // 2/s
constexpr std::array<std::size_t, 3> kShares{3, 3, 2};
constexpr int kMaxRounds = 10;

struct Answer {
  std::size_t gateway = 0;
  int status = 0;
  std::string retry_after;  // seconds, "-" if there is none
  std::uint32_t left = 0;
  std::uint32_t limit = 0;
  nanoseconds exact_wait{0};
  nanoseconds sent{0};
  nanoseconds answered{0};
};

int failures = 0;

void expect(bool held, const std::string& what) {
  fmt::print("   {} {}\n", held ? "ok  " : "FAIL", what);
  if (!held) ++failures;
}

double to_ms(nanoseconds duration) {
  return static_cast<double>(duration.count()) / 1e6;
}

class Gateways {
 public:
  explicit Gateways(const std::string& server) {
    for (std::size_t i = 0; i < kShares.size(); ++i) {
      gateways_.push_back(std::make_unique<Process>(
          std::vector<std::string>{pail::test::program_directory() + "/example-gateway", server,
                                   fmt::format("gateway-{}", i + 1), kPolicy}));
    }
    for (auto& gateway : gateways_) {
      if (gateway->read_line() != "ready") throw std::runtime_error("a gateway did not get ready");
    }
  }

  void tell(std::size_t gateway, const std::string& line) {
    if (!gateways_[gateway]->write_line(line)) throw std::runtime_error("a gateway has died");
  }

  Answer answer_of(std::size_t gateway) {
    const auto line = gateways_[gateway]->read_line();
    if (!line) throw std::runtime_error("a gateway did not answer");
    Answer answer;
    answer.gateway = gateway;
    std::string key;
    std::int64_t exact_wait_ns = 0;
    std::int64_t sent_ns = 0;
    std::int64_t answered_ns = 0;
    std::istringstream parts(*line);
    parts >> key >> answer.status >> answer.retry_after >> answer.left >> answer.limit >>
        exact_wait_ns >> sent_ns >> answered_ns;
    if (!parts) throw std::runtime_error("a gateway got no decision: " + *line);
    answer.exact_wait = nanoseconds(exact_wait_ns);
    answer.sent = nanoseconds(sent_ns);
    answer.answered = nanoseconds(answered_ns);
    return answer;
  }

  [[nodiscard]] std::string pids() const {
    std::string text;
    for (const auto& gateway : gateways_) {
      text += (text.empty() ? "" : ", ") + std::to_string(gateway->pid());
    }
    return text;
  }

 private:
  std::vector<std::unique_ptr<Process>> gateways_;
};

void print_head() {
  fmt::print("   {:<10} {:<12} {:<22} {:<16} {:>5}\n", "gateway", "partner", "answer",
             "Retry-After", "left");
}

void print(const Answer& answer, const std::string& partner) {
  const bool is_refused = answer.status == 429;
  fmt::print(
      "   {:<10} {:<12} {:<22} {:<16} {:>2} of {}\n", fmt::format("gateway-{}", answer.gateway + 1),
      partner, is_refused ? "429 Too Many Requests" : fmt::format("{} OK", answer.status),
      is_refused ? fmt::format("{} (exact {:.0f} ms)", answer.retry_after, to_ms(answer.exact_wait))
                 : "",
      answer.left, answer.limit);
}

// All eight at once; by the time of sending.
std::vector<Answer> burst(Gateways& gateways, const std::string& partner) {
  for (std::size_t i = 0; i < kShares.size(); ++i) {
    gateways.tell(i, fmt::format("request {} {}", partner, kShares[i]));
  }
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < kShares.size(); ++i) {
    for (std::size_t n = 0; n < kShares[i]; ++n) answers.push_back(gateways.answer_of(i));
  }
  std::sort(answers.begin(), answers.end(), [](const Answer& a, const Answer& b) {
    return a.status != b.status ? a.status < b.status : a.left > b.left;
  });
  return answers;
}

nanoseconds spread_of(const std::vector<Answer>& answers) {
  nanoseconds first = nanoseconds::max();
  nanoseconds last = nanoseconds::min();
  for (const Answer& answer : answers) {
    first = std::min(first, answer.sent);
    last = std::max(last, answer.answered);
  }
  return last - first;
}

// Who was refused, and by which gateway, in the round that counted.
struct Refused {
  std::string partner;
  std::size_t gateway = 0;
};

Refused tell_of_the_burst(Gateways& gateways) {
  fmt::print("\n1. Partner A sends eight requests at once, spread over the three gateways\n\n");
  for (int round = 1; round <= kMaxRounds; ++round) {
    const std::string partner = round == 1 ? "A" : fmt::format("A{}", round);
    const auto answers = burst(gateways, partner);
    const nanoseconds spread = spread_of(answers);
    if (spread >= kTokenTime) {
      fmt::print(
          "   The machine is busy: the eight took {:.0f} ms, and in {:.0f} ms a token comes back. "
          "That\n"
          "   was not \"at once\"; again, with a fresh partner.\n",
          to_ms(spread), to_ms(kTokenTime));
      continue;
    }
    print_head();
    for (const Answer& answer : answers) print(answer, partner);
    fmt::print("\n");
    const auto admitted = std::count_if(answers.begin(), answers.end(),
                                        [](const Answer& a) { return a.status == 200; });
    const auto refused = std::count_if(answers.begin(), answers.end(), [](const Answer& a) {
      return a.status == 429 && a.retry_after == "1" && a.exact_wait > 0ns &&
             a.exact_wait <= kTokenTime;
    });
    expect(admitted == kBurst,
           fmt::format("{} admitted, 5 expected: the burst, over all gateways", admitted));
    expect(refused == 3,
           fmt::format("{} refused with 429 and Retry-After: 1, 3 expected", refused));
    bool counts_down = true;
    for (std::size_t i = 0; i < kBurst; ++i) counts_down &= answers[i].left == kBurst - 1 - i;
    expect(counts_down,
           "what is left counts down 4, 3, 2, 1, 0: nobody was answered from old news");
    expect(true, fmt::format("all within {:.1f} ms", to_ms(spread)));
    return {partner, answers.back().gateway};
  }
  expect(false, fmt::format("no round of {} was fast enough to prove anything", kMaxRounds));
  return {"A", 0};
}

void tell_of_the_other(Gateways& gateways) {
  fmt::print("\n2. Partner B, meanwhile\n\n");
  gateways.tell(1, "request B 1");
  const Answer answer = gateways.answer_of(1);
  print_head();
  print(answer, "B");
  fmt::print("\n");
  expect(answer.status == 200 && answer.left == kBurst - 1, "B's bucket was untouched");
}

void tell_of_the_wait(Gateways& gateways, const Refused& refused) {
  const auto& [partner, gateway] = refused;
  fmt::print("\n3. Partner {} waits as long as Retry-After said, and asks again\n\n", partner);
  gateways.tell(gateway, "retry " + partner);
  const Answer answer = gateways.answer_of(gateway);
  print_head();
  print(answer, partner);
  fmt::print("\n");
  expect(answer.status == 200, "admitted again");
}

void tell_of_the_load(const std::string& server, const std::string& duration) {
  fmt::print("\n4. pail-bench, {}\n\n", duration);
  std::fflush(stdout);
  Process bench({pail::test::program_directory() + "/pail-bench", "--server", server, "--duration",
                 duration, "--connections", "50", "--pipeline", "16", "--keys", "100000"},
                Process::Streams::inherited);
  const int status = bench.wait();
  fmt::print("\n");
  expect(status == 0, "every reply was checked: tag, status, order");
}

int play(const std::string& bench_duration) {
  // One shard, so that the countdown below is exact: shards read the clock once a turn each, and
  // one whose reading is older than another's last take answers up to one turn too carefully.
  PaildProcess paild({"--shards", "1", "--policy", fmt::format("{}=2/s,{}", kPolicy, kBurst)});
  Gateways gateways(paild.address());
  fmt::print(
      "Three gateways share one limit\n\n"
      "   server     paild on {}, {}, process {}\n"
      "   policy     {}: 2 a second, burst {}\n"
      "   gateways   3 processes: {}\n",
      paild.address(), paild.io(), paild.process().pid(), kPolicy, kBurst, gateways.pids());

  const Refused refused = tell_of_the_burst(gateways);
  tell_of_the_other(gateways);
  tell_of_the_wait(gateways, refused);
  tell_of_the_load(paild.address(), bench_duration);

  paild.process().signal(SIGTERM);
  const int status = paild.process().wait();
  fmt::print("\n5. The end\n\n");
  expect(status == 0, "paild drained and left on SIGTERM");
  fmt::print("\n{}\n", failures == 0 ? "Every expectation held."
                                     : fmt::format("{} expectations FAILED.", failures));
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count == 1) return play("5s");
    if (count == 3 && std::string(words[1]) == "--bench") return play(words[2]);
    fmt::print(stderr, "usage: three_gateways [--bench DURATION]\n");
    return 2;
  } catch (const std::exception& problem) {
    fmt::print("   FAIL {}\n", problem.what());
    return 1;
  }
}
