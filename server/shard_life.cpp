// How a shard starts, takes in connections, watches the time, and stops.
#include <algorithm>
#include <cerrno>

#include "server/io/listener.hpp"
#include "server/shard.hpp"

namespace pail::server {
namespace {

// Slots whose deadline is looked at in one tick: bounds the pause, not the number of connections.
constexpr std::uint32_t kChecksPerTick = 4096;

// How long a shard without connections sleeps while keys may become idle and be forgotten.
constexpr int kUpkeepMs = 1000;

bool is_out_of_descriptors(int code) noexcept {
  return code == EMFILE || code == ENFILE;
}

bool is_out_of_something(int code) noexcept {
  return is_out_of_descriptors(code) || code == ENOBUFS || code == ENOMEM;
}

// The listener itself is unusable; anything else that accept() says is about one connection.
bool is_final(int code) noexcept {
  return code == EBADF || code == EINVAL || code == ENOTSOCK || code == EOPNOTSUPP;
}

}  // namespace

Shard::Shard(engine::Engine& engine, const Clock& clock, ShardOptions options)
    : engine_(engine),
      clock_(clock),
      options_(std::move(options)),
      limits_(options_.limits),
      backlog_(limits_.long_turn_us, limits_.overload_interval_us),
      flood_line_(limits_.max_connections) {
  for (const auto& [descriptor, protocol] : options_.listeners) {
    listeners_.push_back(Listening{descriptor, protocol});
  }
  handed_over_.reserve(limits_.max_handed_over);
}

Shard::~Shard() {
  for (const Accepted& accepted : handed_over_) backend_->close(accepted.socket);
}

tl::expected<void, io::IoError> Shard::prepare() {
  auto backend = io::make_backend(options_.kind, limits_.io);
  if (!backend) return tl::unexpected(backend.error());
  backend_ = std::move(*backend);
  reply_memory_ = io::Mapping(limits_.reply_memory_bytes);
  if (!reply_memory_.is_valid()) return tl::unexpected(io::IoError{ENOMEM, "no reply memory"});
  replies_.emplace(std::span(reply_memory_.data(), reply_memory_.size_bytes()));
  worker_ = engine_.enroll(clock_.source());
  native_.emplace(*worker_, *replies_, metrics_.native, options_.identity, options_.services);
  resp_.emplace(*worker_, *replies_, metrics_.resp, options_.services, options_.index + 1,
                kMaxShards);
  connections_.emplace(limits_.max_connections);
  touched_.reserve(limits_.max_connections);
  return {};
}

void Shard::run(std::span<const std::unique_ptr<Shard>> shards) noexcept {
  shards_ = shards;
  now_ = clock_.now();
  keep_accepting();
  while (!is_finished()) run_once();
}

// Starts or resumes accepting where it is not under way.
void Shard::keep_accepting() noexcept {
  if (is_draining_) return;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    Listening& listener = listeners_[i];
    if (listener.is_accepting || listener.is_given_up || listener.resume_us > now_.us) continue;
    backend_->accept({io::Operation::accept, 0, static_cast<std::uint32_t>(i)},
                     listener.descriptor);
    listener.is_accepting = true;
  }
}

void Shard::on_accepted(const io::Event& event) noexcept {
  Listening& listener = listeners_[event.key.slot];
  listener.is_accepting = event.armed;
  if (event.result >= 0) {
    count(ShardCount::accepted);
    if (has_room_for(event.result)) place({event.result, listener.protocol});
  } else if (event.result != -ECANCELED) {
    // One bad connection ends nothing; being out of descriptors passes; only a broken listener
    // stays so.
    count(ShardCount::accept_errors);
    const int code = -event.result;
    note(Fault::accept_error, -1, words_for(code));
    listener.is_given_up = is_final(code) && !is_draining_;
    if (is_out_of_descriptors(code) && reserve_.let_go()) {
      // The next one gets the reserve's place, and is closed.
    } else if (is_out_of_something(code)) {
      listener.resume_us = after_ms(limits_.accept_backoff_ms);
    }
  }
  if (!listener.is_accepting) keep_accepting();
}

// While the reserve is out, a new socket may have taken its place. It is kept only if there is room
// for both.
bool Shard::has_room_for(int socket) noexcept {
  if (reserve_.take()) return true;
  count(ShardCount::refused_descriptors);
  backend_->close(socket);
  static_cast<void>(reserve_.take());
  return false;
}

// To the shard with the fewest connections of those that have room, so that few are spread as
// evenly as many. The load is raised only from the value that was the least: while connections only
// come, and however many shards place one at the same time, no two shards differ by more than one.
void Shard::place(Accepted accepted) noexcept {
  if (is_draining_) return backend_->close(accepted.socket);
  Shard* least = nullptr;
  std::uint32_t load = 0;
  const auto prefer = [&](Shard* shard) {
    const std::uint32_t its = shard->load();
    if (its >= shard->limits_.max_connections || (least != nullptr && its >= load)) return;
    least = shard;
    load = its;
  };
  do {
    least = nullptr;
    prefer(this);
    for (const auto& shard : shards_) prefer(shard.get());
    if (least == nullptr) return turn_away(accepted.socket);
  } while (!least->load_.compare_exchange_weak(load, load + 1, std::memory_order_relaxed));
  if (least == this) return open(accepted);
  if (least->hand_over(accepted)) return count(ShardCount::handed_over);
  least->load_.fetch_sub(1, std::memory_order_relaxed);
  load_.fetch_add(1, std::memory_order_relaxed);
  open(accepted);
}

bool Shard::hand_over(Accepted accepted) noexcept {
  {
    const std::lock_guard lock(handed_over_mutex_);
    if (handed_over_.size() == limits_.max_handed_over) return false;
    handed_over_.push_back(accepted);
  }
  backend_->wake();
  return true;
}

void Shard::turn_away(int socket) noexcept {
  count(ShardCount::refused_full);
  note(Fault::too_many_connections, socket);
  backend_->close(socket);
}

// `load_` counts the socket already.
void Shard::open(Accepted accepted) noexcept {
  const int socket = accepted.socket;
  const std::uint32_t slot =
      is_draining_ ? ConnectionTable::kNone : connections_->acquire(accepted, is_local(socket));
  if (slot == ConnectionTable::kNone) {
    load_.fetch_sub(1, std::memory_order_relaxed);
    return turn_away(socket);
  }
  Connection& connection = connections_->at(slot);
  if (connection.protocol == Protocol::resp) resp_->welcome(connection.resp);
  if (!connection.is_greeted()) connection.deadline_us = after_ms(limits_.hello_timeout_ms);
  connection.heard_us = now_.us;
  touch(slot, connection);
}

// Spares the system call where nobody else can have come.
bool Shard::is_local(int socket) const noexcept {
  return options_.is_local_only || io::is_peer_local(socket);
}

void Shard::renew_permissions() noexcept {
  permissions_changed_.store(true, std::memory_order_release);
  backend_->wake();
}

// Whoever holds a token that is gone is told so and let go; the others go on as they may now.
void Shard::check_permissions() noexcept {
  for (std::uint32_t slot = 0; slot < connections_->used(); ++slot) {
    Connection& connection = connections_->at(slot);
    if (connection.stage != Stage::open) continue;
    const auto outcome = connection.protocol == Protocol::native
                             ? native_->renew(connection.session, connection.replies)
                             : resp_->renew(connection.resp, connection.replies);
    if (outcome == frontend::Outcome::keep) continue;
    note(Fault::unauthorized, connection.socket, refusal_of(connection).reason);
    connection.stage = Stage::finishing;
    touch(slot, connection);
  }
}

void Shard::on_woken() noexcept {
  {
    // open() only takes a slot and notes it, so the lock is held for microseconds.
    const std::lock_guard lock(handed_over_mutex_);
    for (const Accepted& accepted : handed_over_) open(accepted);
    handed_over_.clear();
  }
  if (permissions_changed_.exchange(false, std::memory_order_acquire)) check_permissions();
  if (stop_asked_.load(std::memory_order_acquire) && !is_draining_) begin_drain();
}

void Shard::stop() noexcept {
  stop_asked_.store(true, std::memory_order_release);
  if (backend_ != nullptr) backend_->wake();  // else it never came to prepare()
}

// Greeted peers are told to go elsewhere, and get a while to hear of it: what they send until then
// is answered as ever. Then what has arrived is read to its end, answered, and each connection
// finished.
void Shard::begin_drain() noexcept {
  is_draining_ = true;
  drain_deadline_us_ = after_ms(limits_.drain_ms);
  goodbye_deadline_us_ = after_ms(limits_.goodbye_ms);
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    if (!listeners_[i].is_accepting) continue;
    backend_->stop({io::Operation::accept, 0, static_cast<std::uint32_t>(i)},
                   listeners_[i].descriptor);
    // Whoever connects from here on is refused, rather than kept waiting for a server that goes.
    io::shut_down_receiving(listeners_[i].descriptor);
  }
  for (std::uint32_t slot = 0; slot < connections_->used(); ++slot) {
    Connection& connection = connections_->at(slot);
    // RESP has no word for it: its sessions are never greeted in this sense.
    if (connection.stage != Stage::open || !connection.session.is_greeted()) continue;
    native_->say_goodbye(connection.replies);
    touch(slot, connection);
  }
  if (limits_.goodbye_ms == 0) stop_reading();
}

void Shard::stop_reading() noexcept {
  has_stopped_reading_ = true;
  for (std::uint32_t slot = 0; slot < connections_->used(); ++slot) {
    Connection& connection = connections_->at(slot);
    if (connection.stage == Stage::free || connection.stage == Stage::cut) continue;
    io::shut_down_receiving(connection.socket);
    touch(slot, connection);
  }
}

bool Shard::is_finished() const noexcept {
  const bool is_accepting = std::any_of(listeners_.begin(), listeners_.end(),
                                        [](const Listening& l) { return l.is_accepting; });
  return is_draining_ && connections_->live() == 0 && !is_accepting;
}

std::span<const io::Event> Shard::await_events() noexcept {
  const int patience = patience_ms();
  if (limits_.busy_poll_us != 0 && patience != 0) {
    const std::uint64_t until_us = last_event_us_ + limits_.busy_poll_us;
    for (std::uint64_t now_us = now_.us; now_us < until_us; now_us = clock_.now().us) {
      if (const auto events = backend_->reap(0); !events.empty()) return events;
    }
  }
  return backend_->reap(patience);
}

int Shard::patience_ms() const noexcept {
  const bool is_accepting =
      std::all_of(listeners_.begin(), listeners_.end(),
                  [](const Listening& l) { return l.is_accepting || l.is_given_up; });
  const bool has_deadlines = connections_->live() > 0 || is_draining_ || !is_accepting;
  const bool is_work_left = !touched_.empty() || backlog_.is_busy() || flood_line_.size() > 0;
  if (is_work_left || upkeep_ == engine::Upkeep::now) return 0;
  if (has_deadlines) return static_cast<int>(limits_.tick_ms);
  return upkeep_ == engine::Upkeep::later ? kUpkeepMs : -1;
}

void Shard::tick() noexcept {
  if (now_.us < next_tick_us_) return;
  next_tick_us_ = after_ms(limits_.tick_ms);
  keep_accepting();
  if (is_draining_ && !has_stopped_reading_ && now_.us >= goodbye_deadline_us_) stop_reading();
  const std::uint32_t used = connections_->used();
  const bool is_over = is_draining_ && now_.us >= drain_deadline_us_;
  for (std::uint32_t n = is_over ? used : std::min(used, kChecksPerTick); n > 0; --n) {
    if (next_to_check_ >= used) next_to_check_ = 0;
    const std::uint32_t slot = next_to_check_++;
    check_deadline(slot, connections_->at(slot));
  }
  metrics_.shard.set(ShardCount::sleeps, backend_->counts().sleeps);
  metrics_.shard.set(ShardCount::out_of_chunks, backend_->counts().out_of_chunks);
  metrics_.shard.set(ShardCount::completion_overflows, backend_->counts().overflows);
}

// For the operator: one example of each kind is enough.
void Shard::note(Fault fault, int socket, std::string_view reason,
                 std::string_view client_name) noexcept {
  if (!fault_notes_.wants(fault)) return;
  FaultNote note;
  if (socket >= 0) note.peer_bytes = io::peer_of(socket, note.peer);
  note.reason = reason;
  note.set_client(client_name);
  fault_notes_.put(fault, note);
}

void Shard::check_deadline(std::uint32_t slot, Connection& connection) noexcept {
  if (connection.stage == Stage::free || connection.stage == Stage::cut) return;
  const bool is_over = is_draining_ && now_.us >= drain_deadline_us_;
  if (!is_over && !is_late(connection)) return;
  cut(connection);
  touch(slot, connection);
}

// And counts why.
bool Shard::is_late(const Connection& connection) noexcept {
  const auto is_past = [this](std::uint64_t since_us, std::uint32_t patience_ms) {
    return now_.us >= since_us + std::uint64_t{patience_ms} * 1000;
  };
  std::uint64_t deadline_us = connection.deadline_us;
  if (connection.is_sending && is_short_of_memory()) {
    deadline_us -= std::uint64_t{limits_.stuck_timeout_ms - limits_.hoarding_timeout_ms} * 1000;
  }
  if (deadline_us != 0 && now_.us >= deadline_us) {
    if (connection.is_sending) {
      count(ShardCount::stuck_timeouts);
      note(Fault::stuck_peer, connection.socket);
    } else if (connection.stage == Stage::open && !connection.is_greeted()) {
      count(ShardCount::hello_timeouts);
      note(Fault::hello_timeout, connection.socket);
    }
    return true;
  }
  if (connection.stage != Stage::open || !connection.is_greeted()) return false;
  if (connection.is_mid_frame() && !connection.is_read_stopped &&
      is_past(connection.heard_us, limits_.stuck_timeout_ms)) {
    count(ShardCount::stuck_timeouts);
    note(Fault::stuck_peer, connection.socket);
    return true;
  }
  if (limits_.idle_timeout_ms != 0 && connection.replies.pending_bytes() == 0 &&
      is_past(connection.heard_us, limits_.idle_timeout_ms)) {
    count(ShardCount::idle_timeouts);
    return true;
  }
  return false;
}

}  // namespace pail::server
