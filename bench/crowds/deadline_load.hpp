// An open loop whose requests have deadlines, as callers have: the load that shows what a server
// does with more than it can do.
//
// Requests are due at a fixed rate, whatever the server does. A batch that a socket does not take
// at once is dropped here and counted: its callers learn at once that there is no answer. Every
// other request carries its deadline, and an answer counts as good only if it admitted the request
// and came before that, counted from when the request was due. One thread, TCP, no warm-up.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/socket.hpp"
#include "protocol/codec.hpp"

namespace pail::bench {

struct DeadlineOptions {
  protocol::Address server;
  std::string congestion;
  std::uint32_t connections = 50;
  std::uint32_t batch = 16;  // requests that go to one connection together
  std::uint32_t keys = 1'000'000;
  std::uint32_t deadline_us = 10'000;
  std::uint32_t margin_us =
      1'000;                  // the deadline that is said is so much earlier: for the way back
  bool has_deadlines = true;  // said to the server; answers are judged by them in any case
};

// Of one phase, or of a part of it.
struct DeadlineCounts {
  std::uint64_t offered = 0;
  std::uint64_t dropped = 0;  // never sent
  std::uint64_t good = 0;
  std::uint64_t late = 0;  // admitted, so charged, and answered after the deadline
  std::uint64_t expired = 0;
  std::uint64_t overloaded = 0;
  std::uint64_t other = 0;
  std::uint64_t late_to_offer_us = 0;  // the most that this program itself was late

  DeadlineCounts& operator+=(const DeadlineCounts& more) noexcept;
};

class DeadlineLoad {
 public:
  using Clock = std::chrono::steady_clock;
  explicit DeadlineLoad(DeadlineOptions options) : options_(std::move(options)) {}

  [[nodiscard]] tl::expected<void, std::string> open();
  // Offers so many a second for so long. Counts in parts of `part`.
  [[nodiscard]] tl::expected<std::vector<DeadlineCounts>, std::string> run(
      double per_second, std::chrono::milliseconds duration, std::chrono::milliseconds part);

 private:
  static constexpr std::uint32_t kWindow = 1 << 15;  // requests in flight on a connection
  struct Wire {
    Socket socket;
    std::vector<std::byte> out;  // not yet sent
    std::size_t sent = 0;        // of it
    std::vector<std::byte> in;
    std::size_t in_bytes = 0;
    std::vector<std::uint64_t> due_us;  // by tag modulo kWindow
    std::uint32_t next_tag = 1;
    std::uint32_t answered = 0;
  };

  [[nodiscard]] static std::uint64_t now_us() noexcept;
  [[nodiscard]] tl::expected<void, std::string> greet(Wire& wire);
  void make_frame();
  void offer(Wire& wire, std::uint32_t count, double first_due_us, double gap_us);
  [[nodiscard]] bool flush(Wire& wire) noexcept;
  [[nodiscard]] bool receive(Wire& wire) noexcept;
  void judge(Wire& wire, protocol::Bytes reply) noexcept;

  DeadlineOptions options_;
  std::vector<Wire> wires_;
  int epoll_ = -1;  // tells who has something to read; ends with the process
  std::array<std::byte, protocol::kMaxRequestBytes> frame_;
  std::size_t frame_bytes_ = 0;
  // The server's clock minus ours, at least.
  std::int64_t server_ahead_us_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t random_ = 0x9E3779B97F4A7C15;
  std::uint32_t cursor_ = 0;
  std::uint64_t turn_began_us_ = 0;
  std::uint64_t read_us_ = 0;  // when the replies at hand were received
  DeadlineCounts counts_;      // of the part under way
};

}  // namespace pail::bench
