// A shard: one thread with a backend, listeners, connections, buffers and counters of its own. It
// is a part of the machine, not of the state: all shards decide on the same engine.
//
// Everything here belongs to the shard's thread, but for the few calls under "from any thread".
//
// Events only record what happened to a connection; at the end of the turn settle() looks at each
// one that was touched and does what its state asks for: send, receive, stop, close. So there is
// one send a connection a turn, and a socket is closed only where nothing is in flight.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "server/backlog.hpp"
#include "server/clock.hpp"
#include "server/connection.hpp"
#include "server/faults.hpp"
#include "server/flood_line.hpp"
#include "server/io/reserve.hpp"
#include "server/limits.hpp"
#include "server/metrics.hpp"

namespace pail::server {

struct ShardListener {
  int descriptor = -1;  // borrowed: open until the shard has stopped
  Protocol protocol = Protocol::native;
};

struct ShardOptions {
  io::Kind kind = io::Kind::uring;
  ShardLimits limits;
  frontend::Identity identity;
  frontend::Services services;
  std::vector<ShardListener> listeners;
  bool is_local_only = true;  // no other machine can reach any listener
  std::uint32_t index = 0;    // of this shard, among all
};

class Shard {
 public:
  Shard(engine::Engine& engine, const Clock& clock, ShardOptions options);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // The shard's thread calls prepare(), then run(), which returns after stop() and the drain.
  // Between the two all shards must have been prepared. `shards`: all of them, this one included.
  [[nodiscard]] tl::expected<void, io::IoError> prepare();
  void run(std::span<const std::unique_ptr<Shard>> shards) noexcept;

  // From any thread, once prepared.
  void stop() noexcept;                       // accept no more, answer what was received, close
  void poke() noexcept { backend_->wake(); }  // it will take a turn, if it can
  void renew_permissions() noexcept;          // tokens have changed
  [[nodiscard]] const Metrics& metrics() const noexcept { return metrics_; }
  [[nodiscard]] FaultNotes& fault_notes() noexcept { return fault_notes_; }
  [[nodiscard]] std::uint32_t load() const noexcept {
    return load_.load(std::memory_order_relaxed);
  }

 private:
  struct Listening {
    int descriptor;
    Protocol protocol;
    bool is_accepting = false;  // an accept is in flight
    bool is_given_up = false;
    std::uint64_t resume_us = 0;
  };

  void run_once() noexcept;
  void handle(const io::Event& event) noexcept;
  void on_accepted(const io::Event& event) noexcept;
  void on_received(const io::Event& event) noexcept;
  void on_sent(const io::Event& event) noexcept;
  void on_woken() noexcept;

  void interpret(Connection& connection, const io::Event& event) noexcept;
  [[nodiscard]] frontend::Outcome interpret(Connection& connection, io::Bytes chunk,
                                            frontend::Service service) noexcept;
  [[nodiscard]] const frontend::Refusal& refusal_of(const Connection& connection) const noexcept {
    return connection.protocol == Protocol::native ? native_->refusal() : resp_->refusal();
  }
  void note_intake(Connection& connection, std::size_t received_bytes) noexcept;
  [[nodiscard]] frontend::Service service_for(Connection& connection) noexcept;

  void settle_touched() noexcept;
  void settle(std::uint32_t slot) noexcept;
  void settle_sending(std::uint32_t slot, Connection& connection) noexcept;
  void settle_receiving(std::uint32_t slot, Connection& connection) noexcept;
  void start_receiving(std::uint32_t slot, Connection& connection) noexcept;
  void let_floods_in() noexcept;
  void release(std::uint32_t slot, Connection& connection) noexcept;
  void cut(Connection& connection) noexcept;
  void touch(std::uint32_t slot, Connection& connection) noexcept;

  [[nodiscard]] bool has_room_for(int socket) noexcept;
  void place(Accepted accepted) noexcept;
  void open(Accepted accepted) noexcept;
  void turn_away(int socket) noexcept;
  [[nodiscard]] bool is_local(int socket) const noexcept;
  void check_permissions() noexcept;
  [[nodiscard]] bool hand_over(Accepted accepted) noexcept;  // called by the accepting shard

  void keep_accepting() noexcept;
  void begin_drain() noexcept;
  void stop_reading() noexcept;
  void tick() noexcept;
  void check_deadline(std::uint32_t slot, Connection& connection) noexcept;
  [[nodiscard]] bool is_late(const Connection& connection) noexcept;
  [[nodiscard]] std::span<const io::Event> await_events() noexcept;
  [[nodiscard]] int patience_ms() const noexcept;
  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] std::uint64_t after_ms(std::uint32_t ms) const noexcept {
    return now_.us + std::uint64_t{ms} * 1000;
  }
  [[nodiscard]] std::size_t window_bytes() const noexcept;
  [[nodiscard]] bool is_short_of_memory() const noexcept {
    return replies_->free_bytes() < limits_.reply_reserve_bytes;
  }
  void count(ShardCount name, std::uint64_t n = 1) noexcept { metrics_.shard.add(name, n); }
  void note(Fault fault, int socket, std::string_view reason = {},
            std::string_view client_name = {}) noexcept;

  engine::Engine& engine_;
  const Clock& clock_;
  const ShardOptions options_;
  const ShardLimits& limits_;
  std::span<const std::unique_ptr<Shard>> shards_;

  std::unique_ptr<io::Backend> backend_;
  std::unique_ptr<engine::Worker> worker_;
  io::Mapping reply_memory_;
  std::optional<frontend::ReplyPool> replies_;
  std::optional<frontend::Native> native_;
  std::optional<frontend::Resp> resp_;
  std::optional<ConnectionTable> connections_;
  std::vector<Listening> listeners_;
  io::Reserve reserve_;
  std::vector<std::uint32_t> touched_;  // slots to settle at the end of the turn

  frontend::Now now_;  // of this turn
  Backlog backlog_;
  FloodLine flood_line_;
  std::uint32_t floods_left_ = 0;                 // that may be received from in this turn
  engine::Upkeep upkeep_ = engine::Upkeep::none;  // as the last turn left it
  std::uint64_t last_event_us_ = 0;               // the turn that last had one
  std::uint64_t turn_ = 0;
  std::uint64_t next_tick_us_ = 0;
  std::uint32_t next_to_check_ = 0;
  bool is_draining_ = false;
  bool has_stopped_reading_ = false;
  std::uint64_t goodbye_deadline_us_ = 0;
  std::uint64_t drain_deadline_us_ = 0;
  Metrics metrics_;

  // Shared with other threads.
  FaultNotes fault_notes_;
  std::atomic<bool> stop_asked_{false};  // release by stop(), acquire by the thread after a wake
  std::atomic<bool> permissions_changed_{
      false};                           // release by renew_permissions(), acquire likewise
  std::atomic<std::uint32_t> load_{0};  // connections, those on their way included; relaxed: a hint
  std::mutex handed_over_mutex_;        // taken once a socket, never on the request path
  std::vector<Accepted> handed_over_;
};

}  // namespace pail::server
