#include "client/src/connection.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <system_error>
#include <utility>

#include "protocol/codec.hpp"

namespace pail::internal {
namespace {

// A connection that was quiet for longer may have ended meanwhile.
constexpr std::chrono::milliseconds kQuietPause{10};

std::string system_text(int error) {
  return std::system_category().message(error);
}

}  // namespace

// One caller's request, on the caller's stack. Guarded by the connection's mutex.
struct Connection::Call {
  std::condition_variable wake;
  protocol::Op op = protocol::Op::ping;
  std::uint64_t number = 0;
  std::size_t offset = 0;        // of its frame in outgoing_, until it is sent
  Call* next_sleeper = nullptr;  // while it sleeps
  Call* previous_sleeper = nullptr;
  bool done = false;
  Answer answer;               // once done
  std::optional<Error> error;  // instead of the answer
};

Connection::Connection(Socket socket, Bell bell, const ConnectionOptions& options)
    : address_(options.address),
      socket_(std::move(socket)),
      bell_(std::move(bell)),
      in_flight_(options.max_in_flight),
      receive_room_(kReceiveBytes),
      carry_(protocol::kMaxFrameBytes),
      frames_(carry_, protocol::FrameReader::Phase::open) {}

Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::open(const ConnectionOptions& options,
                                                     Time deadline) {
  auto socket = Socket::connect(options.address, options.tcp_congestion, deadline, options.cancel);
  if (!socket) return tl::unexpected(std::move(socket).error());
  auto bell = Bell::make();
  if (!bell) return tl::unexpected(std::move(bell).error());
  std::unique_ptr<Connection> connection(
      new Connection(std::move(*socket), std::move(*bell), options));
  if (auto greeted = connection->greet(options, deadline); !greeted) {
    return tl::unexpected(std::move(greeted).error());
  }
  return connection;
}

Result<Answer> Connection::call(protocol::Request request, Time now, Time deadline) {
  Call call;
  Lock lock(mutex_);
  look_at_notices(lock, now);
  if (failure_) return tl::unexpected(Error{failure_->code, failure_->text, false});
  if (draining_) {
    return tl::unexpected(Error{ErrorCode::closed, where("the server is shutting down"), false});
  }
  if (in_flight_.full()) {
    return tl::unexpected(Error{ErrorCode::too_many_in_flight,
                                where("too many answers are awaited on this connection; raise "
                                      "ClientOptions::max_in_flight or use a second Client"),
                                false});
  }
  const bool may_expire = clock_trusted_ && request.op != protocol::Op::ping;
  request.expires_us = may_expire ? clock_.expires_us(now, deadline) : 0;
  enqueue(request, call);
  work_until_done(lock, call, deadline);

  if (call.error) return tl::unexpected(std::move(*call.error));
  if (call.done) return std::move(call.answer);
  const bool left = call.number < first_unsent_;
  return tl::unexpected(Error{
      ErrorCode::timeout,
      where(left ? "no answer within the deadline" : "could not send within the deadline"), left});
}

// Nobody reads while nobody waits for an answer, so a goodbye, or the end of the connection, may
// lie there unread. Looked for before the first request after a pause: that costs one system call,
// where a request that is sent to a server that has gone costs its answer.
void Connection::look_at_notices(Lock& lock, Time now) {
  const bool is_quiet = in_flight_.empty() && !reader_present_ && !writer_present_ && !failure_;
  if (!is_quiet || now - last_received_ < kQuietPause) return;
  read_turn(lock, now);
  offer_vacant_roles();
}

void Connection::enqueue(protocol::Request& request, Call& call) {
  call.op = request.op;
  call.number = in_flight_.next();
  request.tag = InFlight<Call>::tag(call.number);
  const std::size_t begin = outgoing_.size();
  call.offset = begin;
  outgoing_.resize(begin + protocol::kRequestHeaderBytes + protocol::kInlineLimitBytes +
                   protocol::kGrantIdBytes + request.key.size());
  const std::size_t size = protocol::encode(request, std::span(outgoing_).subspan(begin));
  outgoing_.resize(begin + size);
  // Last: whatever throws for want of memory above leaves no trace of the call.
  in_flight_.push(&call);
}

// The roles in turn until the answer is there, or the deadline.
void Connection::work_until_done(Lock& lock, Call& call, Time deadline) {
  while (!call.done) {
    if (Clock::now() >= deadline) {
      give_up(call);
      break;
    }
    if (has_unsent() && !writer_present_ && !socket_full_) {
      write_turn(lock);
    } else if (!reader_present_) {
      read_turn(lock, deadline);
    } else {
      join_sleepers(call);
      call.wake.wait_until(lock, deadline);
      leave_sleepers(call);
    }
  }
  offer_vacant_roles();
}

// A request that has not left yet must not be charged once nobody waits for it, but its place in
// the order is taken: a TAKE or RESET becomes a PEEK, which has the same size and touches nothing.
void Connection::give_up(const Call& call) {
  in_flight_.abandon(call.number);
  if (call.number < first_unsent_) return;
  std::byte& op = outgoing_[call.offset + protocol::request_at::kOp];
  if (op != static_cast<std::byte>(protocol::Op::ping)) {
    op = static_cast<std::byte>(protocol::Op::peek);
  }
}

bool Connection::has_unsent() const noexcept {
  return !failure_ && (!outgoing_.empty() || sent_bytes_ < sending_.size());
}

// Sends what is there, once. What is appended meanwhile is for the next turn, of whomever.
void Connection::write_turn(Lock& lock) {
  writer_present_ = true;
  if (sent_bytes_ == sending_.size()) {
    sending_.clear();
    sent_bytes_ = 0;
    std::swap(sending_, outgoing_);
    first_unsent_ = in_flight_.next();
  }
  lock.unlock();
  const auto transfer = socket_.send(protocol::Bytes(sending_).subspan(sent_bytes_));
  lock.lock();

  writer_present_ = false;
  sent_bytes_ += transfer.bytes;
  socket_full_ = transfer.outcome == Socket::Outcome::would_block;
  if (socket_full_ && reader_present_) bell_.ring();  // it is to watch for room from now on
  if (transfer.outcome == Socket::Outcome::failed) {
    fail(ErrorCode::closed,
         where("the connection broke while sending: ") + system_text(transfer.error));
  }
}

// Waits for bytes, for room if the socket is full, or for the bell; hands out what has arrived,
// once.
void Connection::read_turn(Lock& lock, Time deadline) {
  reader_present_ = true;
  const bool watch_for_room = socket_full_;
  lock.unlock();

  Socket::Transfer transfer{Socket::Outcome::would_block, 0, 0};
  const Socket::Ready ready = socket_.wait_for(true, watch_for_room, deadline, &bell_);
  if (ready.readable) transfer = socket_.receive(receive_room_);

  lock.lock();
  reader_present_ = false;
  last_received_ = Clock::now();
  if (ready.writable) socket_full_ = false;
  switch (transfer.outcome) {
    case Socket::Outcome::progress:
      on_received(protocol::Bytes(receive_room_).first(transfer.bytes));
      break;
    case Socket::Outcome::would_block:
      break;
    case Socket::Outcome::ended:
      fail(ErrorCode::closed, where("the server closed the connection"));
      break;
    case Socket::Outcome::failed:
      fail(ErrorCode::closed,
           where("the connection broke while receiving: ") + system_text(transfer.error));
      break;
  }
}

// Before leaving. If there is work that nobody sees to, wakes the one that has slept longest, whose
// answer comes first. If all others have roles, a writer will look around by itself, but a reader
// waits on the socket, perhaps with its own request still unsent: the bell ends that.
void Connection::offer_vacant_roles() {
  const bool to_read = !reader_present_ && !in_flight_.empty();
  const bool to_write = !writer_present_ && has_unsent() && !socket_full_;
  if (!to_read && !to_write) return;
  if (first_sleeper_ != nullptr) {
    first_sleeper_->wake.notify_one();
  } else if (reader_present_) {
    bell_.ring();
  }
}

void Connection::join_sleepers(Call& call) {
  call.previous_sleeper = last_sleeper_;
  call.next_sleeper = nullptr;
  (last_sleeper_ != nullptr ? last_sleeper_->next_sleeper : first_sleeper_) = &call;
  last_sleeper_ = &call;
}

void Connection::leave_sleepers(Call& call) {
  Call* const next = call.next_sleeper;
  Call* const previous = call.previous_sleeper;
  (previous != nullptr ? previous->next_sleeper : first_sleeper_) = next;
  (next != nullptr ? next->previous_sleeper : last_sleeper_) = previous;
}

void Connection::on_received(protocol::Bytes chunk) {
  frames_.feed(chunk);
  while (const auto frame = frames_.next()) {
    if (failure_) continue;  // nobody waits any more; the rest is only cut off
    on_frame(*frame);
  }
  if (const auto error = frames_.error(); error && !failure_) {
    fail(ErrorCode::protocol_error,
         where("the peer sent what is no reply: ") + std::string(error->reason));
  }
  frames_.end_chunk();
}

void Connection::on_frame(protocol::Bytes frame) {
  const auto reply = protocol::decode_reply(frame);
  if (!reply) {
    return fail(ErrorCode::protocol_error,
                where("the peer sent what is no reply: ") + std::string(reply.error().reason));
  }
  if (reply->tag == 0) return on_notice(*reply);

  if (in_flight_.empty() || in_flight_.oldest() >= first_unsent_) {
    return fail(ErrorCode::protocol_error, where("the peer answered a request that was not sent"));
  }
  if (reply->tag != InFlight<Call>::tag(in_flight_.oldest())) {
    return fail(
        ErrorCode::protocol_error,
        where("the peer answered out of order: tag " + std::to_string(reply->tag) + " where " +
              std::to_string(InFlight<Call>::tag(in_flight_.oldest())) + " was due"));
  }
  Call* const call = in_flight_.at(in_flight_.oldest());
  if (call != nullptr && reply->op != call->op) {
    return fail(ErrorCode::protocol_error, where("the peer answered with another operation"));
  }
  in_flight_.pop();
  if (call == nullptr) return;  // its caller gave up
  if (reply->status == protocol::Status::expired) clock_trusted_ = false;
  call->answer.reply = *reply;
  call->answer.reply.body = {};
  if (!reply->body.empty()) call->answer.text.assign(protocol::as_text(reply->body));
  call->done = true;
  // Under the mutex: once it is released the caller may return, and its condition variable is gone.
  call->wake.notify_one();
}

// Tag 0: the server speaks unasked.
void Connection::on_notice(const protocol::Reply& notice) {
  if (notice.op == protocol::Op::goaway && notice.status == protocol::Status::ok) {
    draining_ = true;  // what is in flight is still answered
    return;
  }
  if (notice.op == protocol::Op::policy_changed) return;
  fail(ErrorCode::protocol_error,
       where("the server ends the connection: ") +
           (notice.body.empty() ? std::string(protocol::name(notice.status))
                                : std::string(protocol::as_text(notice.body))));
}

// The first failure counts. Everybody who waits is told.
void Connection::fail(ErrorCode code, std::string text) {
  if (failure_) return;
  failure_ = Error{code, std::move(text), false};
  while (!in_flight_.empty()) {
    const std::uint64_t number = in_flight_.oldest();
    Call* const call = in_flight_.pop();
    if (call == nullptr) continue;
    call->error = Error{failure_->code, failure_->text, number < first_unsent_};
    call->done = true;
    call->wake.notify_one();
  }
  outgoing_.clear();
  // Wakes whoever waits on the socket in a role. sending_ is the writer's; it finds the socket
  // shut.
  socket_.shut_down();
}

bool Connection::usable() const noexcept {
  const std::lock_guard lock(mutex_);
  return !failure_ && !draining_;
}

bool Connection::draining() const noexcept {
  const std::lock_guard lock(mutex_);
  return draining_;
}

void Connection::close() noexcept {
  const std::lock_guard lock(mutex_);
  fail(ErrorCode::closed, where("this client was closed"));
}

std::string Connection::where(std::string_view what) const {
  return address_ + ": " + std::string(what);
}

}  // namespace pail::internal
