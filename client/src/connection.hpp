// One connection, shared by all threads that call through it.
//
// There is no thread of our own. The callers that wait for answers share two roles, each held by at
// most one of them at a time:
//
//   writer   sends what is in `outgoing_`; what is appended meanwhile leaves with the next send
//   reader   waits on the socket, cuts what arrives into answers, wakes the callers they belong to
//
// A caller appends its request, takes whichever role is vacant, and sleeps only if it may take
// none. One that leaves (answered, or at its deadline) and leaves work behind wakes a sleeper, or
// the reader by its bell. So a lone caller sends, waits and receives by itself: three system calls
// and no change of thread. While the socket is full nobody writes; the reader watches for room.
//
// Invariants, whenever the mutex is free:
//   1. if a caller sleeps, the reader's role is held, or offered to a sleeper just woken;
//   2. if requests are unsent and the socket is not full, the writer's role is held, or offered to
//      a sleeper just woken, or to the reader by the bell;
//   3. if the socket is full, whoever reads watches for room, or its bell rings;
//   4. the answers that are still owed are exactly in_flight_, in that order;
//   5. a request is in outgoing_ or sending_ until sent, whole frames in the order of in_flight_;
//   6. once failure_ is set, in_flight_ is empty and stays so.
// tests/client/roles_model_test.cpp searches all interleavings of a few callers for a forgotten
// one.
//
// Lock order: there is one mutex. It is never held over a system call but waking.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pail/error.hpp>
#include "client/src/in_flight.hpp"
#include "client/src/server_clock.hpp"
#include "client/src/socket.hpp"
#include "protocol/frame_reader.hpp"
#include "protocol/messages.hpp"

namespace pail::internal {

struct ConnectionOptions {
  std::string_view address;
  std::string_view tcp_congestion;
  std::string_view token;
  std::string_view client_name;
  std::size_t max_in_flight = 1024;
  Bell* cancel = nullptr;  // rung, it ends open() as its deadline does
};

// A reply that outlives its buffer: `reply.body` is moved to `text`.
struct Answer {
  protocol::Reply reply;
  std::string text;
};

class Connection {
 public:
  // Connects and greets.
  [[nodiscard]] static Result<std::unique_ptr<Connection>> open(const ConnectionOptions& options,
                                                                Time deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Sends the request (its tag and expires_us are set here) and returns its answer, or an error, at
  // the deadline at the latest. Any thread.
  [[nodiscard]] Result<Answer> call(protocol::Request request, Time now, Time deadline);

  [[nodiscard]] bool usable() const noexcept;
  // The server asked for no more requests: another connection is to be used, whatever became of
  // this one since.
  [[nodiscard]] bool draining() const noexcept;
  void close() noexcept;  // any thread

 private:
  struct Call;
  using Lock = std::unique_lock<std::mutex>;
  static constexpr std::size_t kReceiveBytes = 64 * 1024;

  Connection(Socket socket, Bell bell, const ConnectionOptions& options);
  [[nodiscard]] Result<void> greet(const ConnectionOptions& options, Time deadline);
  [[nodiscard]] Result<void> send_greeting(protocol::Bytes hello, Time deadline, Bell* cancel);
  [[nodiscard]] Result<void> receive_greeting(Time deadline, Bell* cancel);
  [[nodiscard]] Result<void> on_greeting(protocol::Bytes frame);

  void look_at_notices(Lock& lock, Time now);
  void enqueue(protocol::Request& request, Call& call);
  void work_until_done(Lock& lock, Call& call, Time deadline);
  void write_turn(Lock& lock);
  void read_turn(Lock& lock, Time deadline);
  void give_up(const Call& call);
  void offer_vacant_roles();
  void join_sleepers(Call& call);
  void leave_sleepers(Call& call);
  [[nodiscard]] bool has_unsent() const noexcept;

  void on_received(protocol::Bytes chunk);
  void on_frame(protocol::Bytes frame);
  void on_notice(const protocol::Reply& notice);
  void fail(ErrorCode code, std::string text);
  [[nodiscard]] std::string where(std::string_view what) const;

  const std::string address_;
  Socket socket_;
  Bell bell_;          // ends the reader's wait
  ServerClock clock_;  // written by greet(), before there is a second thread

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  InFlight<Call> in_flight_;
  std::vector<std::byte> outgoing_;  // whole frames; at most max_in_flight of them
  std::uint64_t first_unsent_ = 0;   // requests from this number on have not begun to leave
  Call* first_sleeper_ = nullptr;    // a list through the calls that hold no role and wait
  Call* last_sleeper_ = nullptr;
  bool writer_present_ = false;
  bool reader_present_ = false;
  bool socket_full_ = false;   // the last send found no room
  bool clock_trusted_ = true;  // until the server expires a request that has not expired
  bool draining_ = false;      // the server asked for no more requests (GOAWAY)
  Time last_received_{};       // when a reader last looked
  std::optional<Error> failure_;

  // The writer's: handed from one to the next under the mutex.
  std::vector<std::byte> sending_;
  std::size_t sent_bytes_ = 0;
  // The reader's, likewise.
  std::vector<std::byte> receive_room_;
  std::vector<std::byte> carry_;  // the beginning of a frame that has not arrived whole
  protocol::FrameReader frames_;
};

}  // namespace pail::internal
