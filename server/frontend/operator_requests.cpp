// What operators ask, and who may: beside the request path, never decided by the engine, never in
// a group.
#include "server/frontend/native.hpp"

namespace pail::frontend {
namespace {

using protocol::Status;

static_assert(protocol::kReplyHeaderBytes + protocol::kMaxStatsBodyBytes <= ReplyBlock::kRoomBytes);
static_assert(protocol::kReplyHeaderBytes + protocol::kMaxPolicyBodyBytes <=
              ReplyBlock::kRoomBytes);

}  // namespace

Permission Native::permission_for(const protocol::Hello& hello, bool is_local) const noexcept {
  if (services_.gate == nullptr) return {true, true, 0};
  return services_.gate->admit(hello.token, is_local);
}

Outcome Native::renew(NativeSession& session, ReplyQueue& replies) noexcept {
  if (!session.is_greeted_ || services_.gate == nullptr) return Outcome::keep;
  session.permission_ = services_.gate->renew(session.permission_.ticket, session.is_local_);
  if (session.permission_.is_admitted) return Outcome::keep;
  const protocol::DecodeError error{Status::unauthorized, true, protocol::Op::goaway, 0,
                                    "the token of this connection is no longer valid"};
  counters_.add(NativeCount::unauthorized_hello);
  refusal_ = {Refusal::Kind::unauthorized, error.reason};
  const auto room = replies.room(protocol::kMaxErrorReplyBytes, pool_);
  if (room.empty()) return Outcome::out_of_memory;
  replies.append(protocol::encode(error, room));
  return Outcome::close;
}

void Native::say_goodbye(ReplyQueue& replies) noexcept {
  protocol::Reply goaway;
  goaway.op = protocol::Op::goaway;
  const auto room = replies.room(protocol::kReplyHeaderBytes, pool_);
  if (!room.empty()) replies.append(protocol::encode(goaway, room));
}

// Counts with STATS: its page is as large.
bool Native::answer_policy(const NativeSession& session, const protocol::Request& request,
                           ReplyQueue& replies) noexcept {
  protocol::Reply reply;
  reply.op = request.op;
  reply.tag = request.tag;
  const auto room =
      replies.room(protocol::kReplyHeaderBytes + protocol::kMaxPolicyBodyBytes, pool_);
  if (room.empty()) return false;
  if (!session.permission_.is_admin) {
    reply.status = Status::unauthorized;
    reply.body = protocol::as_body("POLICY is for administrators only");
  } else if (stats_left_ == 0) {
    reply.status = Status::overloaded;
    reply.body = protocol::as_body("too many POLICY at once: wait for the answers");
  } else if (services_.desk == nullptr) {
    reply.status = Status::not_supported;
    reply.body = protocol::as_body("the policies of this server cannot be changed");
  } else {
    --stats_left_;
    const auto page = room.subspan(protocol::kReplyHeaderBytes, protocol::kMaxPolicyBodyBytes);
    const auto answer = services_.desk->ask(protocol::as_text(request.key), request.cost, page);
    reply.status = answer.is_done ? Status::ok : Status::bad_request;
    reply.granted = answer.lines;
    reply.remaining = answer.remaining;
    reply.limit = answer.version;
    reply.body = page.first(answer.bytes);
  }
  counters_.add(count_of(reply.status));
  counters_.add(NativeCount::frames);
  replies.append(protocol::encode(reply, room));
  return true;
}

// As many numbers as a page holds, encoded in place behind the header.
bool Native::answer_stats(const protocol::Request& request, ReplyQueue& replies) noexcept {
  protocol::Reply reply;
  reply.op = request.op;
  reply.tag = request.tag;
  const auto room = replies.room(protocol::kReplyHeaderBytes + protocol::kMaxStatsBodyBytes, pool_);
  if (room.empty()) return false;
  if (stats_left_ == 0) {
    reply.status = Status::overloaded;
    reply.body = protocol::as_body("too many STATS at once: wait for the answers");
  } else if (services_.stats == nullptr) {
    reply.status = Status::not_supported;
    reply.body = protocol::as_body("this server keeps no numbers");
  } else if (request.policy > services_.stats->shard_count()) {
    reply.status = Status::bad_request;
    reply.body = protocol::as_body("there is no such shard: 0 is all together, 1 the first");
  } else {
    const StatsSource& source = *services_.stats;
    const std::size_t count = source.stat_count();
    const auto body = room.subspan(protocol::kReplyHeaderBytes, protocol::kMaxStatsBodyBytes);
    --stats_left_;
    std::size_t index = request.cost;
    std::size_t filled = 0;
    while (index < count && body.size() - filled >= protocol::kMaxStatBytes) {
      filled += protocol::encode(source.stat(index++, request.policy), body.subspan(filled));
      ++reply.granted;
    }
    reply.remaining = static_cast<std::uint32_t>(index < count ? count - index : 0);
    reply.limit = static_cast<std::uint32_t>(source.shard_count());
    reply.body = body.first(filled);
  }
  counters_.add(count_of(reply.status));
  counters_.add(NativeCount::frames);
  replies.append(protocol::encode(reply, room));
  return true;
}

}  // namespace pail::frontend
