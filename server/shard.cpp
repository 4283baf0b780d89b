// The loop, and what events do to connections. Starting, accepting and stopping are in
// shard_life.cpp.
#include "server/shard.hpp"

#include <algorithm>
#include <cerrno>

#include "server/io/listener.hpp"

namespace pail::server {
namespace {

constexpr Fault fault_of(frontend::Refusal::Kind kind) noexcept {
  switch (kind) {
    case frontend::Refusal::Kind::hello:
      return Fault::refused_hello;
    case frontend::Refusal::Kind::unauthorized:
      return Fault::unauthorized;
    case frontend::Refusal::Kind::malformed:
      return Fault::malformed;
  }
  return Fault::malformed;
}

}  // namespace

void Shard::run_once() noexcept {
  // Reap: hands over what the last turn asked for, sleeps if there is nothing to do.
  worker_->offline();
  const std::span<const io::Event> events = await_events();
  worker_->online();

  now_ = clock_.now();  // the one reading of the clock for all decisions of this turn
  std::size_t arrived_bytes = 0;
  for (const io::Event& event : events) arrived_bytes += event.data.size();
  backlog_.begin_turn(now_.us, arrived_bytes, 1 + flood_line_.size() / limits_.floods_per_turn);
  now_.turn_us = backlog_.expected_us();
  ++turn_;
  count(ShardCount::turns);
  count(ShardCount::events, events.size());

  if (!events.empty()) last_event_us_ = now_.us;

  // Decode, decide, encode: each received chunk becomes replies in its connection's queue.
  for (const io::Event& event : events) handle(event);

  // Flush: one send for each connection that has replies; receive, stop or close as it needs.
  settle_touched();

  tick();
  upkeep_ = worker_->end_turn(now_.ticks);
  // Decides nothing: all decisions are made. 20 ns a turn, of at least 10 us.
  metrics_.turn_times.add(turn_time_of(clock_.now().us - now_.us));
}

void Shard::handle(const io::Event& event) noexcept {
  switch (event.key.operation) {
    case io::Operation::accept:
      return on_accepted(event);
    case io::Operation::receive:
      return on_received(event);
    case io::Operation::send:
      return on_sent(event);
    case io::Operation::wake:
      return on_woken();
    case io::Operation::none:
      return;
  }
}

void Shard::on_received(const io::Event& event) noexcept {
  Connection* const connection = connections_->find(event.key);
  if (connection == nullptr) {
    count(ShardCount::stale_events);
    backend_->recycle(event);
    return;
  }
  connection->is_receiving = event.armed;
  if (!event.armed) connection->is_stopping = false;
  if (event.result > 0) {
    interpret(*connection, event);
  } else if (event.result == 0) {
    connection->has_ended = true;
    if (connection->stage == Stage::open) connection->stage = Stage::finishing;
  } else if (event.result != -ENOBUFS && event.result != -ECANCELED) {
    count(ShardCount::receive_errors);
    note(Fault::receive_error, connection->socket, words_for(-event.result));
    cut(*connection);
  }
  backend_->recycle(event);
  touch(event.key.slot, *connection);
}

void Shard::interpret(Connection& connection, const io::Event& event) noexcept {
  count(ShardCount::received_bytes, event.data.size());
  connection.heard_us = now_.us;
  if (connection.stage != Stage::open) {
    connection.lingered_bytes += event.data.size();
    if (connection.lingered_bytes > kLingerBytes) cut(connection);
    return;
  }
  note_intake(connection, event.data.size());
  if (is_short_of_memory() && connection.replies.pending_bytes() > limits_.hoard_bytes) {
    count(ShardCount::hoarders);
    note(Fault::no_reply_memory, connection.socket);
    return cut(connection);
  }
  const bool was_greeted = connection.is_greeted();
  const auto service = service_for(connection);
  switch (interpret(connection, event.data, service)) {
    case frontend::Outcome::keep:
      if (!was_greeted && connection.is_greeted()) connection.deadline_us = 0;
      break;
    case frontend::Outcome::close: {
      const frontend::Refusal& refusal = refusal_of(connection);
      connection.stage = Stage::finishing;
      note(fault_of(refusal.kind), connection.socket, refusal.reason, refusal.client_name);
      break;
    }
    case frontend::Outcome::leave:
      connection.stage = Stage::finishing;
      break;
    case frontend::Outcome::out_of_memory:
      count(ShardCount::reply_memory_out);
      note(Fault::no_reply_memory, connection.socket);
      cut(connection);
      break;
  }
}

// What is spoken here is decided once a chunk.
frontend::Outcome Shard::interpret(Connection& connection, io::Bytes chunk,
                                   frontend::Service service) noexcept {
  if (connection.protocol == Protocol::native) [[likely]] {
    return native_->receive(connection.session, chunk, now_, connection.replies, service);
  }
  return resp_->receive(connection.resp, chunk, now_, connection.replies, service);
}

// A stream brings up to 32 chunks of one connection in a turn. Whoever makes use of that gets one
// chunk a turn, until it sends less than half of one.
void Shard::note_intake(Connection& connection, std::size_t received_bytes) noexcept {
  if (connection.turn_of_chunks != turn_) {
    connection.turn_of_chunks = turn_;
    connection.chunks_this_turn = 0;
    connection.bytes_this_turn = 0;
  }
  connection.bytes_this_turn += received_bytes;
  if (received_bytes == limits_.io.chunk_bytes) backlog_.note_more_waiting();
  if (++connection.chunks_this_turn > limits_.flood_chunks && !connection.is_flood) {
    connection.is_flood = true;
    count(ShardCount::floods);
  } else if (connection.is_flood && received_bytes < limits_.io.chunk_bytes / 2) {
    connection.is_flood = false;
  }
}

// Shed is only who sends more than a chunk in a turn.
frontend::Service Shard::service_for(Connection& connection) noexcept {
  if (!backlog_.is_shedding() || connection.bytes_this_turn < limits_.io.chunk_bytes ||
      backlog_.serves_next()) {
    return frontend::Service::normal;
  }
  count(ShardCount::sheddings);
  note(Fault::overloaded, connection.socket);
  return frontend::Service::shedding;
}

void Shard::on_sent(const io::Event& event) noexcept {
  Connection* const connection = connections_->find(event.key);
  if (connection == nullptr) return count(ShardCount::stale_events);
  connection->is_sending = false;
  connection->deadline_us = 0;
  if (event.result > 0) {
    const auto size_bytes = static_cast<std::size_t>(event.result);
    count(ShardCount::sent_bytes, size_bytes);
    connection->replies.sent(size_bytes, *replies_);
  } else {
    if (connection->stage != Stage::cut) {
      count(ShardCount::send_errors);
      note(Fault::send_error, connection->socket, words_for(-event.result));
    }
    cut(*connection);
  }
  touch(event.key.slot, *connection);
}

void Shard::touch(std::uint32_t slot, Connection& connection) noexcept {
  if (connection.is_touched) return;
  connection.is_touched = true;
  touched_.push_back(slot);  // has room for every slot
}

void Shard::settle_touched() noexcept {
  let_floods_in();
  for (const std::uint32_t slot : touched_) settle(slot);
  touched_.clear();
}

void Shard::settle(std::uint32_t slot) noexcept {
  Connection& connection = connections_->at(slot);
  connection.is_touched = false;
  settle_sending(slot, connection);
  if (connection.stage == Stage::finishing && !connection.is_sending) {
    // All is sent. A peer that still sends would lose the last replies to a reset if we closed now.
    io::shut_down_sending(connection.socket);
    connection.stage = Stage::lingering;
    connection.deadline_us = after_ms(limits_.linger_ms);
  }
  if (connection.stage == Stage::lingering && connection.has_ended) cut(connection);
  settle_receiving(slot, connection);
  if (connection.stage == Stage::cut && !connection.is_in_flight()) release(slot, connection);
}

void Shard::settle_sending(std::uint32_t slot, Connection& connection) noexcept {
  if (connection.stage != Stage::open && connection.stage != Stage::finishing) return;
  while (!connection.is_sending && connection.replies.pending_bytes() > 0) {
    const io::Key key{io::Operation::send, connection.generation, slot};
    const io::Bytes bytes = connection.replies.front();
    count(ShardCount::sends);
    if (backend_->send(key, connection.socket, bytes) == io::Sending::in_flight) {
      connection.is_sending = true;
      connection.deadline_us = after_ms(limits_.stuck_timeout_ms);
    } else {
      count(ShardCount::sent_bytes, bytes.size());
      connection.replies.sent(bytes.size(), *replies_);
    }
  }
}

void Shard::settle_receiving(std::uint32_t slot, Connection& connection) noexcept {
  const std::size_t pending = connection.replies.pending_bytes();
  if (connection.is_read_stopped) {
    connection.is_read_stopped = pending > window_bytes() / 2;
  } else if (pending > window_bytes()) {
    connection.is_read_stopped = true;
    count(ShardCount::read_stops);
  }
  const bool is_wanted =
      (connection.stage == Stage::open && !connection.is_read_stopped && !connection.has_ended) ||
      connection.stage == Stage::lingering;
  if (is_wanted && !connection.is_receiving) return start_receiving(slot, connection);
  const bool is_to_end = !is_wanted || (connection.is_flood && connection.is_streaming);
  if (is_to_end && connection.is_receiving && !connection.is_stopping &&
      connection.stage == Stage::open) {
    backend_->stop({io::Operation::receive, connection.generation, slot}, connection.socket);
    connection.is_stopping = true;
  }
}

void Shard::start_receiving(std::uint32_t slot, Connection& connection) noexcept {
  if (connection.stage == Stage::open && connection.is_flood) {
    if (connection.is_in_line) return;
    if (floods_left_ == 0 && flood_line_.join(slot)) {
      connection.is_in_line = true;
      return;
    }
    if (floods_left_ > 0) --floods_left_;
  }
  connection.is_streaming = connection.stage == Stage::open && !connection.is_flood;
  connection.is_receiving = true;
  backend_->receive({io::Operation::receive, connection.generation, slot}, connection.socket,
                    connection.is_streaming ? io::Receive::stream : io::Receive::once);
}

// Those who have waited longest, before any that came in this turn.
void Shard::let_floods_in() noexcept {
  floods_left_ = limits_.floods_per_turn;
  while (floods_left_ > 0 && flood_line_.size() > 0) {
    const std::uint32_t slot = flood_line_.take_first();
    Connection& connection = connections_->at(slot);
    if (!connection.is_in_line) continue;
    connection.is_in_line = false;
    if (connection.stage == Stage::open) settle_receiving(slot, connection);
  }
}

std::size_t Shard::window_bytes() const noexcept {
  if (is_short_of_memory()) return 0;
  return std::min(limits_.reply_window_bytes,
                  (replies_->free_bytes() - limits_.reply_reserve_bytes) / 4);
}

// Whatever is in flight ends soon; the slot is released after that.
void Shard::cut(Connection& connection) noexcept {
  if (connection.stage == Stage::cut) return;
  connection.stage = Stage::cut;
  io::shut_down(connection.socket);
}

void Shard::release(std::uint32_t slot, Connection& connection) noexcept {
  count(ShardCount::closed);
  count(ShardCount::reply_bytes_dropped, connection.replies.pending_bytes());
  if (connection.protocol == Protocol::native) {
    native_->forget(connection.session);
  } else {
    resp_->forget(connection.resp);
  }
  connection.replies.clear(*replies_);
  backend_->close(connection.socket);
  connections_->release(slot);
  load_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace pail::server
