#include "client/src/supervisor.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace pail::internal {
namespace {

using std::chrono::nanoseconds;

constexpr nanoseconds kFirstPause = std::chrono::milliseconds(50);
constexpr nanoseconds kLongestPause = std::chrono::milliseconds(500);
constexpr nanoseconds kCalm = std::chrono::seconds(1);  // who lived so long is in no crash loop

}  // namespace

Supervisor::Supervisor(Target target, Bell farewell)
    : target_(std::move(target)), farewell_(std::move(farewell)), pause_(kFirstPause) {}

Supervisor::~Supervisor() {
  close();
  if (thread_.joinable()) thread_.join();
}

Result<std::unique_ptr<Supervisor>> Supervisor::make(Target target) {
  auto bell = Bell::make();
  if (!bell) return tl::unexpected(std::move(bell).error());
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(target), std::move(*bell)));
}

Result<Supervisor::Handle> Supervisor::open(Time deadline) {
  ConnectionOptions wanted;
  wanted.address = target_.address;
  wanted.tcp_congestion = target_.tcp_congestion;
  wanted.token = target_.token;
  wanted.client_name = target_.client_name;
  wanted.max_in_flight = target_.max_in_flight;
  wanted.cancel = &farewell_;
  auto connection = Connection::open(wanted, deadline);
  if (!connection) return tl::unexpected(std::move(connection).error());
  return Handle(std::move(*connection));
}

Result<void> Supervisor::connect_now() {
  auto connection = open(Clock::now() + target_.connect_timeout);
  const std::lock_guard lock(mutex_);
  if (!connection) {
    ++failed_connects_;
    last_failure_ = connection.error();
    return tl::unexpected(std::move(connection).error());
  }
  take_up(std::move(*connection));
  return {};
}

Supervisor::Handle Supervisor::current() const {
  const std::lock_guard lock(mutex_);
  return connection_;
}

Result<Supervisor::Handle> Supervisor::replaced(const Handle& old, const Error& why,
                                                Time deadline) {
  Lock lock(mutex_);
  if (connection_ != old) return connection_;
  const Time now = Clock::now();
  note_end(now);
  if (is_closed_) return tl::unexpected(why);
  is_wanted_ = true;
  if (!start_background(lock)) {
    return tl::unexpected(Error{ErrorCode::system, target_.address + ": no thread can be started"});
  }
  background_.notify_one();
  if (now < next_attempt_ && !is_attempting_) return tl::unexpected(why);
  const std::uint64_t ended = attempts_ended_;
  const auto is_over = [&] { return connection_ != old || attempts_ended_ != ended || is_closed_; };
  if (!callers_.wait_until(lock, deadline, is_over)) {
    return tl::unexpected(
        Error{ErrorCode::timeout, target_.address + ": no connection within the deadline"});
  }
  if (connection_ != old) return connection_;
  if (is_closed_) return tl::unexpected(why);
  return tl::unexpected(
      Error{ErrorCode::closed, why.text + "; connecting anew: " + last_failure_.text});
}

// Says whether there is a background thread.
bool Supervisor::start_background(Lock&) {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { run_background(); });
  } catch (const std::system_error&) {
    return false;  // the next caller tries again
  }
  return true;
}

void Supervisor::note_end(Time now) {
  if (is_end_known_) return;
  is_end_known_ = true;
  if (now - connected_at_ < kCalm) return;
  pause_ = kFirstPause;
  next_attempt_ = now;
}

void Supervisor::on_timeout() {
  if (target_.circuit_timeouts == 0) return;
  Lock lock(mutex_);
  if (is_closed_ || is_open_) return;
  const std::uint32_t timeouts = timeouts_ + 1;
  timeouts_ = timeouts;
  if (timeouts < target_.circuit_timeouts || !start_background(lock)) return;
  is_open_ = true;
  ++circuit_opened_;
  next_attempt_ = std::max(next_attempt_, Clock::now() + pause_ / 2);
  background_.notify_one();
}

void Supervisor::forget_timeouts() noexcept {
  const std::lock_guard lock(mutex_);
  if (is_open_) return;
  timeouts_ = 0;
  if (Clock::now() - connected_at_ >= kCalm) pause_ = kFirstPause;
}

void Supervisor::run_background() {
  Lock lock(mutex_);
  while (!is_closed_) {
    if (!is_wanted_ && !is_open_) {
      background_.wait(lock);
    } else if (Clock::now() < next_attempt_) {
      background_.wait_until(lock, next_attempt_);
    } else {
      attempt(lock);
    }
  }
}

// Asks a connection that is there, else makes one.
void Supervisor::attempt(Lock& lock) {
  is_attempting_ = true;
  const Handle old = connection_;
  lock.unlock();
  const nanoseconds patience = target_.connect_timeout / 4;
  bool is_answered = false;
  if (old != nullptr && old->usable()) {
    const Time now = Clock::now();
    is_answered = old->call(protocol::Request{}, now, now + patience).has_value();
    if (!is_answered) old->close();
  }
  Result<Handle> fresh = old;
  if (!is_answered) fresh = open(Clock::now() + patience);
  lock.lock();

  is_attempting_ = false;
  is_wanted_ = false;  // those who came meanwhile are told how this one ended
  ++attempts_ended_;
  next_attempt_ = Clock::now() + pause_ - pause_ * static_cast<int>(jitter_() % 512) / 1024;
  pause_ = std::min(2 * pause_, kLongestPause);
  if (fresh && *fresh != connection_) take_up(std::move(*fresh));
  if (!fresh) {
    ++failed_connects_;
    last_failure_ = std::move(fresh).error();
    is_end_known_ = true;
  } else if (is_open_) {
    is_open_ = false;
    timeouts_ = target_.circuit_timeouts - 1;
  }
  callers_.notify_all();
}

void Supervisor::take_up(Handle fresh) {
  ++connects_;
  connected_at_ = Clock::now();
  is_end_known_ = false;
  if (is_closed_) fresh->close();
  connection_ = std::move(fresh);
}

bool Supervisor::usable() const {
  const std::lock_guard lock(mutex_);
  return !is_closed_ && !is_open_ && connection_ != nullptr &&
         (connection_->usable() || connection_->draining());
}

void Supervisor::close() noexcept {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  if (connection_ != nullptr) connection_->close();
  callers_.notify_all();
  background_.notify_all();
  farewell_.ring();
}

void Supervisor::abandon() noexcept {
  if (const Handle connection = current()) connection->close();
}

}  // namespace pail::internal
