// A bad network between two programs: a TCP proxy that cuts the stream into pieces, delays and
// stalls it, and ends connections in every way that there is.
//
// What happens to a connection is drawn from the seed when it is accepted, and depends on bytes
// passed, not on time, so a seed that fails is worth keeping. How threads interleave still differs
// from run to run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/random.hpp"

namespace pail::test {

// How a connection ends before its ends want it to.
enum class Fate : std::uint8_t {
  lives,
  drop,        // both sides are closed in good order, whatever was on its way
  reset,       // both sides get a reset
  half_close,  // one direction ends, the other goes on
  vanish,      // no byte passes any more in either direction, and nobody is told
};
inline constexpr std::size_t kFates = 5;

struct ChaosOptions {
  std::uint32_t max_piece_bytes = 4096;  // pieces of 1 to that many bytes, each sent by itself
  std::uint32_t max_delay_ms = 0;        // before a piece, now and then
  std::uint32_t delay_one_in = 8;
  std::uint32_t stall_ms = 0;  // one long stop of each direction, somewhere in the first
  std::uint32_t fate_within_bytes = 4096;
  std::vector<Fate> fates = {Fate::lives};  // one of them, all equally likely
};

class ChaosProxy {
 public:
  // Listens on a free port and passes connections on to `upstream`, an address of paild. Throws
  // std::runtime_error. `stream` tells several proxies of one test apart.
  ChaosProxy(std::string upstream, ChaosOptions options, std::uint64_t stream = 0);
  ~ChaosProxy();  // cuts what is still open
  ChaosProxy(const ChaosProxy&) = delete;
  ChaosProxy& operator=(const ChaosProxy&) = delete;

  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t connections() const noexcept { return connections_; }
  [[nodiscard]] std::uint64_t met(Fate fate) const noexcept {
    return fates_[static_cast<std::size_t>(fate)];
  }

 private:
  struct Link;
  void accept_connections();
  void pump(Link& link, bool is_upward);
  [[nodiscard]] bool pass(Link& link, bool is_upward, Random& random, std::uint64_t& passed);
  void meet_fate(Link& link, bool is_upward);

  const std::string upstream_;
  const ChaosOptions options_;
  Random random_;
  int listener_ = -1;
  std::string address_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> connections_{0};
  std::array<std::atomic<std::uint64_t>, kFates> fates_{};
  std::vector<std::unique_ptr<Link>> links_;  // of the accepting thread, until it has ended
  std::thread acceptor_;
};

}  // namespace pail::test
