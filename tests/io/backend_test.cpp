// Concern: each backend keeps the rules of server/io/backend.hpp. Method: socket pairs and few,
// small chunks; every wait is a reap that must bring an event.
#include "server/io/backend.hpp"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace pail::io {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr Key kReceive{Operation::receive, 3, 1};
constexpr Key kSend{Operation::send, 3, 1};

constexpr Kind kKinds[] = {Kind::uring, Kind::epoll};

std::unique_ptr<Backend> make(Kind kind, const Sizes& sizes) {
  auto backend = make_backend(kind, sizes);
  if (!backend) FAIL("no backend: ", backend.error().text);
  return std::move(*backend);
}

struct Pair {
  int ours = -1;
  int theirs = -1;
  explicit Pair(Kind kind) {
    int ends[2];
    const int flags = kind == Kind::epoll ? SOCK_NONBLOCK : 0;
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends) == 0);
    ours = ends[0];
    theirs = ends[1];
  }
  ~Pair() {
    if (ours >= 0) ::close(ours);
    if (theirs >= 0) ::close(theirs);
  }
  void write(std::string_view text) const {
    REQUIRE(::write(theirs, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
};

// A reap may come back empty-handed, but not for ever.
class Patience {
 public:
  void check() const {
    if (std::chrono::steady_clock::now() > end_) FAIL("nothing happens");
  }

 private:
  std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
};

// Reaps until `done` says so; every event is recycled after `look` saw it.
template <class Look, class Done>
void reap_until(Backend& backend, Look look, Done done) {
  const Patience patience;
  while (!done()) {
    const auto events = backend.reap(kPatienceMs);
    patience.check();
    for (const Event& event : events) {
      look(event);
      backend.recycle(event);
    }
  }
}

TEST_CASE("a stream is received in order, whatever the number of chunks") {
  for (const Kind kind : kKinds) {
    for (const Receive mode : {Receive::once, Receive::stream}) {
      const auto backend =
          make(kind, {.submissions = 8, .completions = 16, .chunks = 2, .chunk_bytes = 10});
      Pair pair(kind);
      std::string sent;
      for (int i = 0; i < 500; ++i) sent += std::to_string(i) + ",";
      std::thread writer([&] { pair.write(sent); });
      std::string received;
      bool is_armed = false;
      const Patience patience;
      while (received.size() < sent.size()) {
        if (!is_armed) backend->receive(kReceive, pair.ours, mode);
        is_armed = true;
        const auto events = backend->reap(kPatienceMs);
        patience.check();
        for (const Event& event : events) {
          CHECK(event.key == kReceive);
          is_armed = event.armed;
          if (mode == Receive::once) CHECK_FALSE(event.armed);
          CHECK((event.result > 0 || event.result == -ENOBUFS));
          received.append(reinterpret_cast<const char*>(event.data.data()), event.data.size());
          backend->recycle(event);
        }
      }
      writer.join();
      CHECK(received == sent);
    }
  }
}

TEST_CASE("the end of a stream is an event, and the last of its receive") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    Pair pair(kind);
    backend->receive(kReceive, pair.ours, Receive::stream);
    pair.write("last words");
    ::shutdown(pair.theirs, SHUT_WR);
    std::string received;
    bool has_ended = false;
    reap_until(
        *backend,
        [&](const Event& event) {
          received.append(reinterpret_cast<const char*>(event.data.data()), event.data.size());
          if (event.result == 0) {
            has_ended = true;
            CHECK_FALSE(event.armed);
          }
        },
        [&] { return has_ended; });
    CHECK(received == "last words");
  }
}

TEST_CASE("a stopped receive ends once, and can be started again") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    Pair pair(kind);
    for (int round = 0; round < 3; ++round) {
      backend->receive(kReceive, pair.ours, Receive::stream);
      REQUIRE(backend->reap(0).empty());
      backend->stop(kReceive, pair.ours);
      int endings = 0;
      reap_until(
          *backend,
          [&](const Event& event) {
            CHECK(event.result == -ECANCELED);
            CHECK_FALSE(event.armed);
            ++endings;
          },
          [&] { return endings > 0; });
      CHECK(endings == 1);
      pair.write("not lost");
      CHECK(backend->reap(0).empty());
      backend->receive(kReceive, pair.ours, Receive::once);
      bool has_come = false;
      reap_until(
          *backend,
          [&](const Event& event) {
            CHECK(event.result == 8);
            has_come = true;
          },
          [&] { return has_come; });
    }
  }
}

// More than the socket takes at once, to a peer that reads late.
TEST_CASE("a send goes on until all bytes are out") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    Pair pair(kind);
    const std::string text(4'000'000, 'x');
    const Bytes all = std::as_bytes(std::span(text.data(), text.size()));
    std::size_t received = 0;
    std::thread reader([&] {
      std::vector<char> room(65536);
      while (received < text.size()) {
        const ssize_t size = ::read(pair.theirs, room.data(), room.size());
        if (size > 0) {
          received += static_cast<std::size_t>(size);
        } else if (size == 0 || errno != EAGAIN) {
          break;
        }
      }
    });
    std::size_t sent = 0;
    while (sent < text.size()) {
      if (backend->send(kSend, pair.ours, all.subspan(sent)) == Sending::done) {
        sent = text.size();
        continue;
      }
      bool is_done = false;
      reap_until(
          *backend,
          [&](const Event& event) {
            CHECK(event.key == kSend);
            REQUIRE(event.result > 0);
            sent += static_cast<std::size_t>(event.result);
            is_done = true;
          },
          [&] { return is_done; });
    }
    reader.join();
    CHECK(received == text.size());
  }
}

TEST_CASE("a shut socket ends its receive and its send") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    Pair pair(kind);
    const std::string text(4'000'000, 'x');
    backend->receive(kReceive, pair.ours, Receive::stream);
    REQUIRE(backend->send(kSend, pair.ours, std::as_bytes(std::span(text.data(), text.size()))) ==
            Sending::in_flight);
    static_cast<void>(backend->reap(0));
    ::shutdown(pair.ours, SHUT_RDWR);
    bool is_receiving = true;
    bool is_sending = true;
    reap_until(
        *backend,
        [&](const Event& event) {
          if (event.key == kReceive) is_receiving = event.armed;
          if (event.key == kSend) is_sending = false;
        },
        [&] { return !is_receiving && !is_sending; });
  }
}

TEST_CASE("a wake from another thread ends a sleep, as often as it is called") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    for (int i = 0; i < 100; ++i) {
      std::thread waker([&] { backend->wake(); });
      bool is_awake = false;
      reap_until(
          *backend, [&](const Event& event) { is_awake = event.key.operation == Operation::wake; },
          [&] { return is_awake; });
      waker.join();
    }
  }
}

TEST_CASE("without events a reap ends when its time is over") {
  for (const Kind kind : kKinds) {
    const auto backend = make(kind, Sizes{.chunks = 4});
    CHECK(backend->reap(0).empty());
    CHECK(backend->reap(1).empty());
  }
}

// Far more operations at once than the queues have places.
TEST_CASE("full queues lose nothing") {
  for (const Kind kind : kKinds) {
    const auto backend =
        make(kind, {.submissions = 4, .completions = 8, .chunks = 4, .chunk_bytes = 64});
    constexpr std::uint32_t kPairs = 100;
    std::vector<std::unique_ptr<Pair>> pairs;
    std::vector<int> received(kPairs, 0);
    for (std::uint32_t i = 0; i < kPairs; ++i) {
      pairs.push_back(std::make_unique<Pair>(kind));
      pairs[i]->write("x");
      backend->receive({Operation::receive, 0, i}, pairs[i]->ours, Receive::once);
    }
    std::uint32_t total = 0;
    std::vector<std::uint32_t> starved;
    const Patience patience;
    while (total < kPairs) {
      const auto events = backend->reap(kPatienceMs);
      patience.check();
      for (const Event& event : events) {
        if (event.result == -ENOBUFS) {
          starved.push_back(event.key.slot);
        } else {
          CHECK(event.result == 1);
          ++received[event.key.slot];
          ++total;
        }
        backend->recycle(event);
      }
      for (const std::uint32_t slot : starved) {
        backend->receive({Operation::receive, 0, slot}, pairs[slot]->ours, Receive::once);
      }
      starved.clear();
    }
    for (const int count : received) CHECK(count == 1);
  }
}

}  // namespace
}  // namespace pail::io
