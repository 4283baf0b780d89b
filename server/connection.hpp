// One connection of a shard, and the table of them. Used by the shard's thread only.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <new>
#include <span>

#include "server/frontend/native.hpp"
#include "server/frontend/resp/resp.hpp"
#include "server/io/backend.hpp"
#include "server/io/mapping.hpp"

namespace pail::server {

// What is spoken on a listener, and so on the connections that it accepts.
enum class Protocol : std::uint8_t { native, resp };

// A socket on its way to a shard.
struct Accepted {
  int socket = -1;
  Protocol protocol = Protocol::native;
};

enum class Stage : std::uint8_t {
  free,  // the slot is nobody's
  open,
  finishing,  // no byte is interpreted any more; replies are still sent
  lingering,  // all is sent; the peer gets time to read it
  cut,        // shut down: waits for what is in flight, then closes
};

struct Connection {
  int socket = -1;
  std::uint32_t generation = 0;
  Stage stage = Stage::free;
  Protocol protocol = Protocol::native;
  bool is_receiving = false;  // a receive is in flight
  bool is_stopping = false;   // and was asked to end
  bool is_sending = false;
  bool has_ended = false;        // the stream of received bytes has
  bool is_flood = false;         // sends more than its share: received from once a turn
  bool is_streaming = false;     // that receive goes on by itself
  bool is_in_line = false;       // waits for its turn as a flood
  bool is_read_stopped = false;  // does not read its replies: not received from
  bool is_touched = false;       // is in the shard's list for the end of the turn
  std::uint32_t chunks_this_turn = 0;
  std::size_t bytes_this_turn = 0;
  std::uint64_t turn_of_chunks = 0;
  std::uint32_t next_free = 0;
  std::uint64_t deadline_us = 0;  // 0: none
  std::uint64_t heard_us = 0;     // when bytes came last
  std::size_t lingered_bytes = 0;
  frontend::NativeSession session;  // of Protocol::native
  frontend::RespSession resp;       // of Protocol::resp
  frontend::ReplyQueue replies;

  [[nodiscard]] bool is_in_flight() const noexcept { return is_receiving || is_sending; }
  [[nodiscard]] bool is_greeted() const noexcept {
    return protocol == Protocol::native ? session.is_greeted() : resp.is_greeted();
  }
  [[nodiscard]] bool is_mid_frame() const noexcept {
    return protocol == Protocol::native ? session.is_mid_frame() : resp.is_mid_frame();
  }
};

// A fixed number of slots, each with room for the beginning of a frame. Memory is touched when a
// slot is first used; slots are used again before new ones are.
class ConnectionTable {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // The beginning of a frame or a command.
  static constexpr std::size_t kCarryBytes =
      std::max(protocol::kMaxFrameBytes, frontend::resp::kMaxCommandBytes);

  explicit ConnectionTable(std::uint32_t capacity)
      : slots_(std::size_t{capacity} * sizeof(Connection)),
        carries_(std::size_t{capacity} * kCarryBytes),
        capacity_(capacity) {
    if (!slots_.is_valid() || !carries_.is_valid()) throw std::bad_alloc();
  }
  ConnectionTable(const ConnectionTable&) = delete;
  ConnectionTable& operator=(const ConnectionTable&) = delete;

  // kNone if all are taken. The slot is as new, but for its generation.
  [[nodiscard]] std::uint32_t acquire(Accepted accepted, bool is_local) noexcept {
    std::uint32_t slot = first_free_;
    if (slot != kNone) {
      first_free_ = at(slot).next_free;
    } else {
      if (used_ == capacity_) return kNone;
      slot = used_++;
      new (&at(slot)) Connection;
    }
    Connection& connection = at(slot);
    const std::uint32_t generation = connection.generation;
    connection.~Connection();
    new (&connection) Connection;
    connection.generation = generation;
    connection.socket = accepted.socket;
    connection.protocol = accepted.protocol;
    connection.stage = Stage::open;
    const std::span carry(carries_.data() + std::size_t{slot} * kCarryBytes, kCarryBytes);
    if (accepted.protocol == Protocol::native) {
      connection.session = frontend::NativeSession(carry, is_local);
    } else {
      connection.resp = frontend::RespSession(carry, is_local);
    }
    ++live_;
    return slot;
  }

  void release(std::uint32_t slot) noexcept {
    Connection& connection = at(slot);
    assert(connection.stage != Stage::free && !connection.is_in_flight());
    connection.stage = Stage::free;
    connection.socket = -1;
    connection.generation = (connection.generation + 1) & io::Key::kGenerationMask;
    connection.next_free = first_free_;
    first_free_ = slot;
    --live_;
  }

  [[nodiscard]] Connection& at(std::uint32_t slot) noexcept {
    return reinterpret_cast<Connection*>(slots_.data())[slot];
  }
  // Null where the slot has another tenant by now, or none.
  [[nodiscard]] Connection* find(io::Key key) noexcept {
    if (key.slot >= used_) return nullptr;
    Connection& connection = at(key.slot);
    const bool is_meant =
        connection.stage != Stage::free && connection.generation == key.generation;
    return is_meant ? &connection : nullptr;
  }
  // Slots that were ever used: those to look at.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] std::uint32_t live() const noexcept { return live_; }

 private:
  io::Mapping slots_;
  io::Mapping carries_;
  std::uint32_t capacity_;
  std::uint32_t used_ = 0;
  std::uint32_t live_ = 0;
  std::uint32_t first_free_ = kNone;
};

}  // namespace pail::server
