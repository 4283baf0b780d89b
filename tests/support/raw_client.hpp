// The plainest client there is: bytes out, bytes in, nothing remembered. For tests of the server
// that must control every byte, the wrong ones included.
//
// Every wait ends when the server hangs up, or after kRawPatience, so that a broken server fails a
// test instead of hanging it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "protocol/codec.hpp"

namespace pail::test {

inline constexpr std::chrono::seconds kRawPatience{20};

using Octets = std::vector<std::byte>;

struct RawOptions {
  int receive_buffer_bytes = 0;  // 0: the system's. Small ones make a peer that is soon stuck
};

class RawClient {
 public:
  // Throws std::runtime_error where there is no connection to be had.
  explicit RawClient(const std::string& address, const RawOptions& options = {});
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient& operator=(RawClient&&) = delete;

  // False: the server has hung up.
  bool send(protocol::Bytes bytes);
  bool send(std::string_view text) { return send(protocol::as_body(text)); }
  // What fits without waiting.
  std::size_t send_some(protocol::Bytes bytes);
  // False once the server has read nothing for a tenth of a second.
  [[nodiscard]] bool can_send_soon() const;

  // The next whole frame; nothing where the stream has ended or broken off.
  std::optional<Octets> frame();
  std::optional<protocol::Reply> reply();  // its body is valid until the next call
  // HELLO, there and back.
  bool greet();

  // Reads and drops all until the end. False: it did not come.
  bool wait_for_end();
  [[nodiscard]] bool has_ended();
  void finish_sending();
  // Both directions, whichever thread waits on them.
  void stop();
  // With a reset, as a crashed peer does.
  void abort();
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

 private:
  bool fill(std::size_t wanted);

  int fd_ = -1;
  Octets received_;
  std::size_t read_ = 0;  // of received_
  Octets last_frame_;
};

[[nodiscard]] Octets hello_bytes(std::string_view client_name = "raw", std::string_view token = {});
[[nodiscard]] Octets request_bytes(const protocol::Request& request);

// A take with an inline limit that refills at most once in 80 seconds for a burst of up to a
// million: what is taken stays taken while a test runs.
[[nodiscard]] protocol::Request slow_take(std::uint32_t tag, std::string_view key,
                                          std::uint32_t burst, std::uint32_t cost = 1);

[[nodiscard]] inline Octets joined(Octets left, const Octets& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Until the condition holds. False: it did not, within kRawPatience.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kRawPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace pail::test
