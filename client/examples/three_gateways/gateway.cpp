// An example: the part of an API gateway that asks Pail, without the HTTP server around it.
//
//   example-gateway SERVER NAME POLICY
//
// reads lines from standard input and answers each request with one line of words:
//
//   request KEY COUNT     COUNT requests at once, each on a thread of its own, as a web server
//   would retry KEY             waits as long as the last refusal of KEY said (Retry-After), then
//   one request
//
//   KEY 200 - LEFT LIMIT RETRY_NS SENT_NS ANSWERED_NS       admitted
//   KEY 429 SECONDS LEFT LIMIT RETRY_NS SENT_NS ANSWERED_NS refused; SECONDS is the value of
//   Retry-After KEY error CODE TEXT                                     no decision
//
// RETRY_NS is the exact wait; SENT_NS and ANSWERED_NS are the machine's monotonic clock around the
// call.
#include <chrono>
#include <iostream>
#include <latch>
#include <map>
#include <pail/client.hpp>
#include <pail/http.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

long long to_ns(Clock::time_point time) {
  return time.time_since_epoch() / std::chrono::nanoseconds(1);
}

struct Outcome {
  pail::Result<pail::Decision> decision;
  Clock::time_point sent;
  Clock::time_point answered;
};

class Gateway {
 public:
  Gateway(pail::Client client, pail::Limit limit)
      : client_(std::move(client)), limit_(std::move(limit)) {}

  // One client, shared by all threads.
  void request(const std::string& key, std::size_t count) {
    std::vector<Outcome> outcomes(count, {pail::Decision{}, {}, {}});
    std::latch all_here(static_cast<std::ptrdiff_t>(count));
    std::vector<std::thread> threads;
    for (Outcome& outcome : outcomes) {
      threads.emplace_back([&] {
        all_here.arrive_and_wait();
        outcome.sent = Clock::now();
        outcome.decision = client_.take(limit_, key);
        outcome.answered = Clock::now();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Outcome& outcome : outcomes) answer(key, outcome);
  }

  void retry(const std::string& key) {
    std::this_thread::sleep_for(retry_after_[key]);
    request(key, 1);
  }

 private:
  void answer(const std::string& key, const Outcome& outcome) {
    std::cout << key << ' ';
    if (!outcome.decision) {
      const pail::Error& error = outcome.decision.error();
      std::cout << "error " << pail::name(error.code) << ' ' << error.text << '\n';
      return;
    }
    const pail::Decision& decision = *outcome.decision;
    std::cout << pail::http::status(decision) << ' ';
    if (const auto seconds = pail::http::retry_after_seconds(decision)) {
      retry_after_[key] = std::chrono::seconds(*seconds);
      std::cout << *seconds;
    } else {
      std::cout << '-';
    }
    std::cout << ' ' << decision.remaining << ' ' << decision.limit << ' '
              << decision.retry_after.count() << ' ' << to_ns(outcome.sent) << ' '
              << to_ns(outcome.answered) << '\n';
  }

  pail::Client client_;
  pail::Limit limit_;
  std::map<std::string, std::chrono::seconds> retry_after_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    std::cerr << "usage: example-gateway SERVER NAME POLICY\n";
    return 2;
  }
  pail::ClientOptions options;
  options.name = words[2];
  // Much longer than a gateway in production would wait: the example is to work on a busy machine
  // too.
  options.deadline = std::chrono::seconds(2);
  options.connect_timeout = std::chrono::seconds(5);
  // It shows what the server says; one in production would rather let requests through.
  options.on_failure = pail::OnFailure::report;
  auto client = pail::Client::connect(words[1], options);
  if (!client) {
    std::cerr << words[2] << ": " << client.error().text << '\n';
    return 1;
  }
  Gateway gateway(std::move(*client), pail::Limit::policy(words[3]));
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream parts(line);
    std::string verb;
    std::string key;
    std::size_t requests = 1;
    parts >> verb >> key;
    if (verb == "request") {
      parts >> requests;
      gateway.request(key, requests);
    } else if (verb == "retry") {
      gateway.retry(key);
    }
    std::cout.flush();
  }
  return 0;
}
