// What is decided one by one, behind the group that stood before it: several limits at once,
// permits, and takes that are settled later.
#include <algorithm>

#include "server/engine/concurrency.hpp"
#include "server/frontend/native.hpp"

namespace pail::frontend {
namespace {

using protocol::Op;
using protocol::Status;

constexpr std::size_t kMaxBodyBytes =
    std::max(protocol::kMaxErrorTextBytes, protocol::kMaxLayers* protocol::kLayerStateBytes);
constexpr std::size_t kMaxReplyBytes = protocol::kReplyHeaderBytes + kMaxBodyBytes;
static_assert(engine::kMaxLayers == protocol::kMaxLayers);
static_assert(engine::kNoLayer == protocol::kNoLayer);
static_assert(GrantLedger::kTtlUs <= UINT32_MAX);

engine::Request to_engine(const protocol::Request& request) noexcept {
  engine::Request ask;
  ask.priority = request.priority;
  ask.partial = request.partial;
  ask.policy = request.policy;
  ask.cost = request.cost;
  ask.key = request.key;
  return ask;
}

void make_bad(engine::Decision& decision, std::string_view reason) noexcept {
  decision = {};
  decision.verdict = engine::Verdict::bad_request;
  decision.reason = reason;
}

// The wire counts a grant's life in 32 bits of microseconds: 71 minutes.
protocol::Grant to_wire(const engine::Grant& grant) noexcept {
  return {grant.id, static_cast<std::uint32_t>(grant.ttl_ns / 1000)};
}
static_assert(std::uint64_t{engine::kMaxPermitSeconds} * 1'000'000 <= UINT32_MAX);

}  // namespace

// Fills the body in place behind the header, and answers.
bool Native::answer_single(NativeSession& session, const protocol::Request& request, const Now& now,
                           ReplyQueue& replies) noexcept {
  const auto room = replies.room(kMaxReplyBytes, pool_);
  if (room.empty()) return false;
  const auto body = room.subspan(protocol::kReplyHeaderBytes, kMaxBodyBytes);
  protocol::Reply reply;
  reply.op = request.op;
  reply.tag = request.tag;
  reply.status = unheard(request, now);
  if (reply.status == Status::expired) worker_.count_expired(request.policy);
  if (reply.status == Status::ok) decide_single(session, request, now, body, reply);
  counters_.add(count_of(reply.status));
  counters_.add(NativeCount::frames);
  replies.append(protocol::encode(reply, room));
  return true;
}

void Native::decide_single(NativeSession& session, const protocol::Request& request, const Now& now,
                           protocol::Buffer body, protocol::Reply& reply) noexcept {
  engine::Decision decision;
  const auto add_grant = [&](const protocol::Grant& grant) {
    if (decision.verdict == engine::Verdict::admitted) {
      reply.body = body.first(protocol::encode(grant, body));
    }
  };
  switch (request.op) {
    case Op::take_all:
      take_all(request, now, body, decision, reply);
      break;
    case Op::acquire: {
      engine::Grant grant;
      worker_.acquire(to_engine(request), now.ticks, decision, grant);
      add_grant(to_wire(grant));
      break;
    }
    case Op::renew: {
      engine::Grant grant{.id = request.grant};
      worker_.renew(to_engine(request), now.ticks, decision, grant);
      add_grant(to_wire(grant));
      break;
    }
    case Op::release:
      worker_.release(to_engine(request), request.grant, now.ticks, decision);
      break;
    case Op::settle:
      if (const auto* receipt = grants_.find(session.grants_, request.grant, now.us)) {
        worker_.settle(to_engine(request), *receipt, now.ticks, decision);
        // What is refused (another key, say) has settled nothing.
        if (decision.verdict == engine::Verdict::admitted) grants_.use_up(request.grant);
      } else {
        make_bad(decision, "this connection has no such grant: settled, expired, or another's");
      }
      break;
    case Op::lease:
      if (!leases_.has_room(session.leases_, now.us)) {
        reply.status = Status::overloaded;
        reply.body = protocol::as_body("too many leases are not returned: 4096 a connection");
        return;
      }
      lease(session, request, now, body, decision, reply);
      break;
    case Op::give_back:
      if (const auto* receipt = leases_.find(session.leases_, request.grant, now.us)) {
        worker_.give_back(to_engine(request), *receipt, now.ticks, decision);
        if (decision.verdict == engine::Verdict::admitted) leases_.use_up(request.grant);
      } else {
        make_bad(decision, "this connection has no such lease: returned, expired, or another's");
      }
      break;
    default: {  // a TAKE that wants a grant
      if (!grants_.has_room(session.grants_, now.us)) {
        reply.status = Status::overloaded;
        reply.body = protocol::as_body("too many grants are not settled: 4096 a connection");
        return;
      }
      engine::Receipt receipt;
      worker_.take_to_settle(to_engine(request), now.ticks, decision, receipt);
      if (decision.verdict == engine::Verdict::admitted) {
        add_grant({grants_.add(session.grants_, receipt, now.us),
                   static_cast<std::uint32_t>(GrantLedger::kTtlUs)});
      }
    }
  }
  tell(decision, reply);
}

void Native::lease(NativeSession& session, const protocol::Request& request, const Now& now,
                   protocol::Buffer body, engine::Decision& decision,
                   protocol::Reply& reply) noexcept {
  engine::Receipt receipt;
  const std::uint64_t ttl_us =
      worker_.lease(to_engine(request), now.ticks, decision, receipt) / 1000;
  if (decision.verdict != engine::Verdict::admitted) return;
  protocol::Grant grant{0, static_cast<std::uint32_t>(ttl_us)};
  if (decision.granted != 0) grant.id = leases_.add(session.leases_, receipt, now.us, ttl_us);
  reply.body = body.first(protocol::encode(grant, body));
}

void Native::take_all(const protocol::Request& request, const Now& now, protocol::Buffer body,
                      engine::Decision& decision, protocol::Reply& reply) noexcept {
  std::array<protocol::Layer, protocol::kMaxLayers> layers;
  std::array<engine::Layer, protocol::kMaxLayers> asked;
  const auto count = protocol::read_layers(request.key, request.cost, layers);
  if (!count) return make_bad(decision, count.error());
  for (std::size_t i = 0; i < *count; ++i) {
    asked[i] = {layers[i].policy, layers[i].cost, layers[i].key};
  }
  engine::LayersDecision all;
  worker_.take_all(std::span(asked).first(*count), request.priority, now.ticks, all);
  decision = all.decision;
  reply.layer = all.layer;
  if (decision.verdict > engine::Verdict::never) return;
  std::array<protocol::LayerState, protocol::kMaxLayers> states;
  for (std::size_t i = 0; i < *count; ++i) {
    states[i] = {all.layers[i].remaining, all.layers[i].limit, all.layers[i].reset_ns};
  }
  const std::span<const protocol::LayerState> told(states.data(), *count);
  reply.body = body.first(protocol::encode(told, body));
}

void Native::forget(NativeSession& session) noexcept {
  grants_.drop(session.grants_);
  leases_.drop(session.leases_);
}

}  // namespace pail::frontend
