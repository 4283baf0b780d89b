// A server that does what its script says, right or wrong: for tests of the client.
//
// Every connection it accepts runs the script in a thread of its own. A script talks through its
// Peer; each of the Peer's waits ends when the client hangs up, or after kPatience, so that a
// broken test fails instead of hanging.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/codec.hpp"
#include "protocol/frame_reader.hpp"
#include "protocol/messages.hpp"

namespace pail::test {

inline constexpr std::chrono::seconds kPatience{20};

// A request with its own copy of the key.
struct ReceivedRequest : protocol::Request {
  std::string key_text;
};

class Peer {
 public:
  explicit Peer(int fd);  // owns the descriptor
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();

  // Reads HELLO and answers it. False: the client left, or sent no HELLO.
  bool greet(protocol::HelloReply reply = {});
  // What the client said in HELLO.
  const std::string& client_name() const { return client_name_; }
  const std::string& token() const { return token_; }

  // The next request; nothing once the client has left.
  std::optional<ReceivedRequest> next();
  // Requests that have arrived and that next() has not returned. Reads what is there, without
  // waiting.
  std::size_t arrived();

  void send(protocol::Bytes bytes);
  void send(const protocol::Reply& reply);
  void send_text(std::string_view text) { send(protocol::as_body(text)); }
  void hang_up();
  // Until the client closes its side. False: it did not.
  bool wait_for_end();

 private:
  bool receive(bool may_wait);

  int fd_;
  std::vector<std::byte> room_;
  std::vector<std::byte> carry_;
  protocol::FrameReader frames_;
  std::vector<ReceivedRequest> requests_;
  std::size_t returned_ = 0;
  bool greeted_ = false;
  bool failed_ = false;
  std::string client_name_;
  std::string token_;
};

// What a well-behaved server would say to `request`: admitted, with the tag and the operation
// echoed.
[[nodiscard]] protocol::Reply admitted(const protocol::Request& request);
[[nodiscard]] std::vector<std::byte> to_bytes(const protocol::Reply& reply);

class StubServer {
 public:
  using Script = std::function<void(Peer&)>;

  explicit StubServer(Script script);
  StubServer(const StubServer&) = delete;
  StubServer& operator=(const StubServer&) = delete;
  // Waits for the scripts: destroy the clients first.
  ~StubServer();

  [[nodiscard]] const std::string& address() const { return address_; }  // "127.0.0.1:34567"

 private:
  void accept_connections();

  Script script_;
  int listener_ = -1;
  std::string address_;
  std::mutex mutex_;
  std::vector<std::thread> scripts_;  // guarded by the mutex
  std::thread acceptor_;
};

}  // namespace pail::test
