#include "server/frontend/native.hpp"

namespace pail::frontend {
namespace {

using protocol::Op;
using protocol::Status;

constexpr std::size_t kMaxTextReplyBytes =
    protocol::kReplyHeaderBytes + protocol::kMaxErrorTextBytes;
static_assert(Native::kGroup * protocol::kReplyHeaderBytes <= ReplyBlock::kRoomBytes);
static_assert(kMaxTextReplyBytes <= ReplyBlock::kRoomBytes);
static_assert(protocol::kMaxErrorReplyBytes <= ReplyBlock::kRoomBytes);
static_assert(engine::kMaxKeyBytes == protocol::kMaxKeyBytes);
static_assert(engine::kWaitForever == protocol::kWaitForever);
static_assert(engine::kInfoShadow == protocol::kInfoShadow);
static_assert(engine::kInfoOverride == protocol::kInfoOverride);

constexpr Status status_of(engine::Verdict verdict) noexcept {
  switch (verdict) {
    case engine::Verdict::admitted:
      return Status::ok;
    case engine::Verdict::denied:
      return Status::denied;
    case engine::Verdict::shed:
      return Status::shed;
    case engine::Verdict::never:
      return Status::never;
    case engine::Verdict::table_full:
      return Status::table_full;
    case engine::Verdict::unknown_policy:
      return Status::unknown_policy;
    case engine::Verdict::bad_request:
      return Status::bad_request;
    case engine::Verdict::busy:
      return Status::overloaded;
  }
  return Status::bad_request;
}

bool is_late(const protocol::Request& request, const Now& now) noexcept {
  return protocol::has_expired(request.expires_us, static_cast<std::uint32_t>(now.us));
}

// Of what is decided in a group.
constexpr engine::Action action_of(Op op) noexcept {
  assert(op == Op::take || op == Op::peek || op == Op::reset);
  return op == Op::take   ? engine::Action::take
         : op == Op::peek ? engine::Action::peek
                          : engine::Action::reset;
}

// What is not decided in a group: everything but PING, TAKE, PEEK and RESET.
constexpr bool is_single(const protocol::Request& request) noexcept {
  return request.wants_grant || (request.op > Op::peek && request.op != Op::reset);
}

constexpr std::string_view text_for(const engine::Decision& decision) noexcept {
  switch (decision.verdict) {
    case engine::Verdict::admitted:
    case engine::Verdict::denied:
    case engine::Verdict::shed:
    case engine::Verdict::never:
      return {};
    case engine::Verdict::table_full:
      return "no room for a new key";
    case engine::Verdict::unknown_policy:
      return "the server has no policy of this name";
    case engine::Verdict::bad_request:
      return decision.reason;
    case engine::Verdict::busy:
      return "something is just being given back to this key: ask again";
  }
  return {};
}

}  // namespace

Outcome Native::receive(NativeSession& session, protocol::Bytes chunk, const Now& now,
                        ReplyQueue& replies, Service service) noexcept {
  service_ = service;
  session.reader_.feed(chunk);
  stats_left_ = kStatsPerChunk;
  if (!session.is_greeted_) {
    const Outcome outcome = greet(session, now, replies);
    if (outcome != Outcome::keep) return outcome;
  }
  while (session.is_greeted_) {
    const bool is_well_formed = fill_group(session, now);
    if (group_.size != 0) {
      worker_.decide({group_.requests.data(), group_.request_count}, now.ticks,
                     {group_.decisions.data(), group_.request_count});
      if (!answer_group(replies)) return Outcome::out_of_memory;
    } else if (!group_.single) {
      break;
    }
    if (group_.single) [[unlikely]] {
      const Op op = group_.single->op;
      const bool is_answered = op == Op::stats ? answer_stats(*group_.single, replies)
                               : op == Op::policy
                                   ? answer_policy(session, *group_.single, replies)
                                   : answer_single(session, *group_.single, now, replies);
      if (!is_answered) return Outcome::out_of_memory;
    }
    if (!is_well_formed) return Outcome::close;
  }
  if (const auto error = session.reader_.error()) return refuse(*error, replies);
  session.reader_.end_chunk();
  return Outcome::keep;
}

// The first frame. Until it is whole there is nothing to do; anything but a good HELLO ends the
// session.
Outcome Native::greet(NativeSession& session, const Now& now, ReplyQueue& replies) noexcept {
  const auto frame = session.reader_.next();
  if (!frame) return Outcome::keep;  // or error(), which is looked at next
  const auto hello = protocol::decode_hello(*frame);
  if (!hello) return refuse(hello.error(), replies);

  protocol::HelloReply reply;
  reply.tag = hello->tag;
  reply.version = protocol::negotiate_version(*hello);
  reply.boot_id = identity_.boot_id;
  reply.clock_us = now.us;
  reply.max_frame_bytes = protocol::kMaxFrameBytes;
  reply.max_key_bytes = protocol::kMaxKeyBytes;
  reply.configuration_version = identity_.configuration_version;
  const Permission permission = permission_for(*hello, session.is_local_);
  Refusal::Kind fault = Refusal::Kind::hello;
  if (reply.version == 0) {
    reply.status = Status::not_supported;
    reply.version = protocol::kVersion;
    reply.error = "this server speaks version 1 of the protocol only";
  } else if (!permission.is_admitted) {
    reply.status = Status::unauthorized;
    reply.error = services_.gate->refusal();
    fault = Refusal::Kind::unauthorized;
  }
  const auto room = replies.room(protocol::kMaxErrorReplyBytes, pool_);
  if (room.empty()) return Outcome::out_of_memory;
  replies.append(protocol::encode(reply, room));
  if (reply.status != Status::ok) {
    counters_.add(fault == Refusal::Kind::hello ? NativeCount::refused_hello
                                                : NativeCount::unauthorized_hello);
    refusal_ = {fault, reply.error, hello->client_name};
    return Outcome::close;
  }
  counters_.add(NativeCount::hellos);
  session.reader_.accept_hello();
  session.is_greeted_ = true;
  session.permission_ = permission;
  return Outcome::keep;
}

[[gnu::always_inline]] inline void Native::add(const protocol::Request& request,
                                               const Now& now) noexcept {
  Group::Frame& frame = group_.frames[group_.size++];
  frame.tag = request.tag;
  frame.op = request.op;
  frame.is_decided = false;
  frame.status = Status::ok;
  frame.text = {};
  if (request.op == Op::ping) return;
  frame.status = unheard(request, now);
  if (frame.status != Status::ok) {
    if (frame.status == Status::expired) worker_.count_expired(request.policy);
    return;
  }
  frame.is_decided = true;
  engine::Request& ask = group_.requests[group_.request_count++];
  ask.action = action_of(request.op);
  ask.priority = request.priority;
  ask.partial = request.partial;
  ask.has_inline_rate = request.has_inline_limit;
  ask.policy = request.policy;
  ask.cost = request.cost;
  if (request.has_inline_limit) {
    ask.inline_rate = {request.inline_limit.period_ns, request.inline_limit.count,
                       request.inline_limit.burst};
  }
  ask.key = request.key;
}

bool Native::fill_group(NativeSession& session, const Now& now) noexcept {
  group_.size = 0;
  group_.request_count = 0;
  group_.has_text = false;
  group_.single.reset();
  while (group_.size < kGroup) {
    const auto frame = session.reader_.next();
    if (!frame) break;
    // A local that nothing takes the address of: the request never goes through memory.
    protocol::Request request;
    if (protocol::decode_plain(*frame, request)) [[likely]] {
      add(request, now);
      continue;
    }
    const Filling filling = fill_slowly(session, *frame, now);
    if (filling != Filling::goes_on) return filling == Filling::is_full;
  }
  return true;
}

// What is not a well-formed TAKE or PEEK.
Native::Filling Native::fill_slowly(NativeSession& session, protocol::Bytes frame,
                                    const Now& now) noexcept {
  const auto request = protocol::decode_request(frame);
  if (!request) {
    add_refusal(request.error());
    if (!request.error().fatal) return Filling::goes_on;
    counters_.add(NativeCount::malformed);
    refusal_ = {Refusal::Kind::malformed, request.error().reason};
    return Filling::is_malformed;
  }
  if (is_single(*request)) {
    if (is_late(*request, now)) {
      worker_.count_expired(request->policy);
      add_refusal({Status::expired, false, request->op, request->tag, {}});
      return Filling::goes_on;
    }
    group_.single = *request;
    return Filling::is_full;
  }
  if (request->op == Op::reset && !session.permission_.is_admin) {
    add_refusal({Status::unauthorized, false, request->op, request->tag,
                 "RESET is for administrators only"});
  } else {
    add(*request, now);
  }
  return Filling::goes_on;
}

void Native::add_refusal(const protocol::DecodeError& error) noexcept {
  group_.frames[group_.size++] = {error.tag, error.op, false, error.status, error.reason};
  group_.has_text = true;
}

bool Native::answer_group(ReplyQueue& replies) noexcept {
  for (std::size_t i = 0; i < group_.request_count; ++i) {
    group_.has_text |= group_.decisions[i].verdict > engine::Verdict::never;
  }
  if (!(group_.has_text ? answer_with_texts(replies) : answer_plainly(replies))) return false;
  counters_.add(NativeCount::frames, group_.size);
  counters_.add(NativeCount::batches);
  counters_.add(count_of_batch(group_.size));
  return true;
}

namespace {

[[gnu::always_inline]] inline void fill(protocol::Reply& reply,
                                        const engine::Decision& decision) noexcept {
  reply.status = status_of(decision.verdict);
  reply.granted = decision.granted;
  reply.remaining = decision.remaining;
  reply.limit = decision.limit;
  reply.info = decision.info;
  reply.policy_version = decision.policy_version;
  reply.wait_ns = decision.wait_ns;
  reply.reset_ns = decision.reset_ns;
}

}  // namespace

bool Native::answer_plainly(ReplyQueue& replies) noexcept {
  const std::size_t size_bytes = group_.size * protocol::kReplyHeaderBytes;
  const auto room = replies.room(size_bytes, pool_);
  if (room.empty()) return false;
  std::byte* at = room.data();
  const engine::Decision* decision = group_.decisions.data();
  for (std::size_t i = 0; i < group_.size; ++i, at += protocol::kReplyHeaderBytes) {
    const Group::Frame& frame = group_.frames[i];
    protocol::Reply reply;
    reply.op = frame.op;
    reply.tag = frame.tag;
    reply.status = frame.status;
    if (frame.is_decided) fill(reply, *decision++);
    counters_.add(count_of(reply.status));
    protocol::encode_plain(reply, at);
  }
  replies.append(size_bytes);
  return true;
}

bool Native::answer_with_texts(ReplyQueue& replies) noexcept {
  const engine::Decision* decision = group_.decisions.data();
  for (std::size_t i = 0; i < group_.size; ++i) {
    const Group::Frame& frame = group_.frames[i];
    protocol::Reply reply;
    reply.op = frame.op;
    reply.tag = frame.tag;
    reply.status = frame.status;
    reply.body = protocol::as_body(frame.text);
    if (frame.is_decided) {
      fill(reply, *decision);
      reply.body = protocol::as_body(text_for(*decision++));
    }
    counters_.add(count_of(reply.status));
    const auto room = replies.room(kMaxTextReplyBytes, pool_);
    if (room.empty()) return false;
    replies.append(protocol::encode(reply, room));
  }
  return true;
}

void Native::tell(const engine::Decision& decision, protocol::Reply& reply) noexcept {
  fill(reply, decision);
  if (!protocol::is_decision(reply.status)) reply.body = protocol::as_body(text_for(decision));
}

// The stream itself cannot be trusted any more: says why, interprets no further byte.
Outcome Native::refuse(const protocol::DecodeError& error, ReplyQueue& replies) noexcept {
  const bool is_hello = error.op == Op::hello;
  counters_.add(is_hello ? NativeCount::refused_hello : NativeCount::malformed);
  refusal_ = {is_hello ? Refusal::Kind::hello : Refusal::Kind::malformed, error.reason};
  const auto room = replies.room(protocol::kMaxErrorReplyBytes, pool_);
  if (room.empty()) return Outcome::out_of_memory;
  replies.append(protocol::encode(error, room));
  return Outcome::close;
}

}  // namespace pail::frontend
