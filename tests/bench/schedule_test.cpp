// Concern: requests are due when they should be, whatever the number of threads; and what a user
// writes about them is understood or refused in words. Method: known answers, and a large sample
// for Poisson.
#include "bench/schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "bench/op_mix.hpp"
#include "bench/trace.hpp"

namespace pail::bench {
namespace {

std::vector<std::uint64_t> due_times(const Arrival& arrival, std::uint32_t threads,
                                     std::size_t each, const Trace* trace = nullptr) {
  std::vector<std::uint64_t> times;
  for (std::uint32_t thread = 0; thread < threads; ++thread) {
    Schedule schedule(arrival, trace, thread, threads, 7 + thread);
    schedule.start(1000);
    for (std::size_t i = 0; i < each && schedule.due_ns() != Schedule::kNever; ++i) {
      times.push_back(schedule.due_ns());
      schedule.advance();
    }
  }
  std::sort(times.begin(), times.end());
  return times;
}

TEST_CASE("even arrivals are evenly spaced over all threads") {
  const auto times = due_times({Arrival::Kind::even, 50'000}, 3, 100);
  REQUIRE(times.size() == 300);
  for (std::size_t i = 0; i < times.size(); ++i) CHECK(times[i] == 1000 + i * 20'000);
}

TEST_CASE("a rate that does not divide a second does not drift") {
  Schedule schedule({Arrival::Kind::even, 3}, nullptr, 0, 1, 1);
  schedule.start(0);
  for (int i = 0; i < 3'000'000; ++i) schedule.advance();
  CHECK(schedule.due_ns() >= 999'999'999'999'999);
  CHECK(schedule.due_ns() <= 1'000'000'000'000'001);
}

TEST_CASE("poisson arrivals have the rate and are not even") {
  const auto times = due_times({Arrival::Kind::poisson, 1000}, 2, 20'000);
  const double seconds = static_cast<double>(times.back()) / 1e9;
  CHECK(seconds == doctest::Approx(40).epsilon(0.05));
  // Of exponential gaps 63.2 % are shorter than the mean.
  std::size_t shorter = 0;
  for (std::size_t i = 1; i < times.size(); ++i) shorter += times[i] - times[i - 1] < 1'000'000;
  const double share = static_cast<double>(shorter) / static_cast<double>(times.size() - 1);
  CHECK(share == doctest::Approx(0.632).epsilon(0.03));
}

TEST_CASE("a closed loop has no schedule") {
  CHECK(due_times({}, 1, 10).empty());
}

TEST_CASE("arrival rates as users write them") {
  CHECK(parse_arrival("50k/s")->per_s == 50'000);
  CHECK(parse_arrival("1.5M/s")->per_s == 1.5e6);
  CHECK(parse_arrival("0.5/s")->per_s == 0.5);
  CHECK(parse_arrival("50k/s")->kind == Arrival::Kind::even);
  CHECK(parse_arrival("poisson:200/s")->kind == Arrival::Kind::poisson);
  CHECK(format_arrival(*parse_arrival("poisson:200/s")) == "poisson:200/s");
  for (const char* text : {"", "50k", "k/s", "0/s", "-5/s", "nan/s", "1e12/s", "50k/s ", "5G/s"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_arrival(text));
  }
}

TEST_CASE("mixes as users write them, and their shares") {
  const auto share = [](const OpMix& mix, protocol::Op op) {
    int count = 0;
    for (std::uint32_t tag = 1; tag <= 1000; ++tag) count += mix.op_of(tag) == op;
    return count;
  };
  const auto peeks = [&](const OpMix& mix) { return share(mix, protocol::Op::peek); };
  CHECK(parse_mix("take")->is_takes_only());
  CHECK(peeks(*parse_mix("take")) == 0);
  CHECK(peeks(*parse_mix("peek")) == 1000);
  CHECK(peeks(*parse_mix("take:90,peek:10")) == 100);
  CHECK(peeks(*parse_mix("peek:37,take:63")) == 370);
  CHECK(format_mix(*parse_mix("peek:37,take:63")) == "take:63,peek:37");
  const auto all = parse_mix("layers:5,take:75,lease:7,peek:13");
  REQUIRE(all);
  CHECK(share(*all, protocol::Op::take) == 750);
  CHECK(share(*all, protocol::Op::peek) == 130);
  CHECK(share(*all, protocol::Op::lease) == 70);
  CHECK(share(*all, protocol::Op::take_all) == 50);
  CHECK(format_mix(*all) == "take:75,peek:13,lease:7,layers:5");
  CHECK(format_mix(*parse_mix("layers")) == "layers");
  CHECK(share(*parse_mix("layers"), protocol::Op::take_all) == 1000);
  for (const char* text : {"", "take:50", "take:90,peek:20", "take,take", "leases",
                           "take:90,lease:5", "take:x", ","}) {
    CAPTURE(text);
    CHECK_FALSE(parse_mix(text));
  }
}

tl::expected<Trace, std::string> trace_of(const std::string& text) {
  std::istringstream stream(text);
  return read_trace(stream);
}

TEST_CASE("a trace is read, and its gaps add up") {
  const auto trace = trace_of("# a comment\n\nalice 1 0\nbob 3 250\r\n  alice\t2 0.5\n");
  REQUIRE(trace);
  REQUIRE(trace->entries.size() == 3);
  CHECK(trace->keys == std::vector<std::string>{"alice", "bob"});
  CHECK(trace->entries[1].cost == 3);
  CHECK(trace->entries[1].key == 1);
  CHECK(trace->entries[2].key == 0);
  CHECK(trace->entries[2].at_ns == 250'500);
  CHECK(due_times({Arrival::Kind::trace, 0}, 2, 10, &*trace) ==
        std::vector<std::uint64_t>{1000, 251'000, 251'500});
}

TEST_CASE("a wrong line of a trace is named") {
  for (const char* text : {"alice 1", "alice 1 2 3", "alice 0 5", "alice x 5", "alice 1 -5",
                           "alice 1 nan", "alice 4294967296 1"}) {
    CAPTURE(text);
    const auto trace = trace_of(std::string("bob 1 0\n") + text);
    REQUIRE_FALSE(trace);
    CHECK(trace.error().find("line 2") != std::string::npos);
  }
  CHECK_FALSE(trace_of("# nothing\n"));
  CHECK_FALSE(trace_of(std::string(1025, 'k') + " 1 1"));
}

TEST_CASE("a file that is no trace is given up at its first long line") {
  std::istringstream stream(std::string(1'000'000, '\0'));
  const auto trace = read_trace(stream);
  REQUIRE_FALSE(trace);
  CHECK(trace.error().find("line 1") != std::string::npos);
  CHECK(stream.rdbuf()->in_avail() > 900'000);  // the rest was never read
}

}  // namespace
}  // namespace pail::bench
