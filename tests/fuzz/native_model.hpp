// What the native front end must answer, by a plain map of words: for native_harness.hpp.
#pragma once

#include <array>
#include <map>
#include <utility>

#include "server/engine/keyed_hash.hpp"
#include "server/engine/refund.hpp"
#include "server/engine/reset_fence.hpp"
#include "server/frontend/native.hpp"
#include "tests/fuzz/protocol_harness.hpp"

namespace pail::test {

using Octets = std::vector<std::byte>;

// The one that is leased: more than its burst at a time would be, half of what is left, from 2 on.
inline engine::NamedRate fast_policy() {
  engine::NamedRate fast{"fast", 6, {1'000'000'000, 3, 20}};
  fast.lease = {20'000'000'000, 50, 2};
  return fast;
}

inline const std::vector<engine::NamedRate>& native_policies() {
  constexpr std::uint64_t kSecondNs = 1'000'000'000;
  static const std::vector<engine::NamedRate> policies = {{"daily", 5, {86'400 * kSecondNs, 1, 3}},
                                                          fast_policy()};
  return policies;
}

// The words of all keys, and what each request must be answered.
class NativeModel {
 public:
  [[nodiscard]] protocol::Reply expected(const protocol::Request& request,
                                         const frontend::Now& now) {
    using protocol::Status;
    protocol::Reply reply;
    reply.op = request.op;
    reply.tag = request.tag;
    reply.status = Status::ok;
    if (request.op == protocol::Op::ping) return reply;
    if (protocol::has_expired(request.expires_us, static_cast<std::uint32_t>(now.us))) {
      reply.status = Status::expired;
      return reply;
    }
    if (request.op == protocol::Op::take_all) return take_all(request, now, reply), reply;
    if (request.op == protocol::Op::settle) return settle(request, now, reply), reply;
    if (request.op == protocol::Op::lease) return lease(request, now, reply), reply;
    if (request.op == protocol::Op::give_back) return give_back(request, now, reply), reply;
    if (request.op == protocol::Op::acquire || protocol::names_grant(request.op)) {
      const bool is_known = find_policy(request.policy) != nullptr;  // but gives no permits
      reply.status = is_known ? Status::bad_request : Status::unknown_policy;
      return reply;
    }
    engine::TokenBucket limit;
    if (request.has_inline_limit) {
      const auto made = engine::make_token_bucket(
          {request.inline_limit.period_ns, request.inline_limit.count, request.inline_limit.burst});
      reply.status = Status::bad_request;
      if (!made) return reply;
      limit = *made;
    } else if (request.policy != 0) {
      const auto* policy = find_policy(request.policy);
      reply.status = Status::unknown_policy;
      if (policy == nullptr) return reply;
      limit = *engine::make_token_bucket(policy->rate);
      reply.policy_version = 1;
    }
    reply.limit = limit.burst;
    decide(request, limit, engine::usable_now(now.ticks), reply);
    return reply;
  }

  // The grant that an admitted take was answered with.
  void note_grant(const protocol::Request& request, std::uint64_t id, std::uint32_t tokens,
                  const frontend::Now& now) {
    auto& grants = request.op == protocol::Op::lease ? leases_ : grants_;
    const bool is_new =
        grants
            .emplace(id,
                     Granted{request.policy, std::string(protocol::as_text(request.key)), tokens,
                             engine::usable_now(now.ticks), now.us, resets_[cell_of(request)]})
            .second;
    require(is_new, "a grant's id was given twice");
  }

  // The table had no room for one of the layers that were decided last.
  void take_back_layers() { words_ = before_layers_; }

  // The table had no room for the request that was decided last.
  void take_back() {
    require(!was_live_, "no room for a key that is in the table");
    words_[last_] = 0;
  }

 private:
  static const engine::NamedRate* find_policy(std::uint32_t id) {
    for (const auto& policy : native_policies()) {
      if (policy.id == id) return &policy;
    }
    return nullptr;
  }

  void decide(const protocol::Request& request, const engine::TokenBucket& limit, engine::Ticks now,
              protocol::Reply& reply) {
    using protocol::Status;
    last_ = {request.policy, std::string(protocol::as_text(request.key))};
    engine::Word& word = words_[last_];
    was_live_ = word > now;
    engine::Word shown = word;
    const engine::Ask ask{request.cost, request.priority, request.partial};
    reply.status = Status::ok;
    if (request.op == protocol::Op::reset) {
      ++resets_[cell_of(request)];
      if (word > now) word = now;
      shown = 0;
    } else if (engine::never_fits(limit, ask)) {
      reply.status = Status::never;
      reply.wait_ns = protocol::kWaitForever;
    } else {
      const engine::Step step = engine::take(limit, word, now, ask);
      if (step.verdict == engine::Verdict::admitted) {
        reply.granted = step.granted;
        shown = step.next;
        if (request.op == protocol::Op::take) word = step.next;
      } else {
        reply.status = step.verdict == engine::Verdict::shed ? Status::shed : Status::denied;
        reply.wait_ns = engine::ns_rounded_up(engine::retry_after(limit, word, now, ask));
      }
    }
    reply.remaining = engine::remaining(limit, shown, now, request.priority);
    reply.reset_ns = engine::ns_rounded_up(engine::reset_after(shown, now));
  }

  // One layer as a request of its own.
  [[nodiscard]] protocol::Reply one_layer(const protocol::Layer& layer, protocol::Op op,
                                          std::uint8_t priority, engine::Ticks now) {
    protocol::Request request;
    request.op = op;
    request.policy = layer.policy;
    request.cost = layer.cost;
    request.key = layer.key;
    request.priority = priority;
    const auto limit = *engine::make_token_bucket(find_policy(layer.policy)->rate);
    protocol::Reply reply;
    reply.limit = limit.burst;
    decide(request, limit, now, reply);
    return reply;
  }

  void take_all(const protocol::Request& request, const frontend::Now& now_read,
                protocol::Reply& reply) {
    using protocol::Status;
    const engine::Ticks now = engine::usable_now(now_read.ticks);
    std::array<protocol::Layer, protocol::kMaxLayers> layers;
    const std::size_t count = *protocol::read_layers(request.key, request.cost, layers);
    for (std::size_t i = 0; i < count; ++i) {
      reply.layer = static_cast<std::uint8_t>(i);
      reply.status = Status::unknown_policy;
      if (find_policy(layers[i].policy) == nullptr) return;
      reply.status = Status::bad_request;
      for (std::size_t j = 0; j < i; ++j) {
        if (layers[j].policy == layers[i].policy &&
            protocol::as_text(layers[j].key) == protocol::as_text(layers[i].key)) {
          return;
        }
      }
    }
    before_layers_ = words_;
    reply.status = Status::ok;
    reply.layer = protocol::kNoLayer;
    reply.policy_version = 1;
    std::array<protocol::Reply, protocol::kMaxLayers> each;
    for (std::size_t i = 0; i < count; ++i) {
      each[i] = one_layer(layers[i], protocol::Op::peek, request.priority, now);
      if (each[i].status == Status::ok) continue;
      if (reply.layer == protocol::kNoLayer || each[i].wait_ns > reply.wait_ns) {
        reply.layer = static_cast<std::uint8_t>(i);
        reply.status = each[i].status;
        reply.wait_ns = each[i].wait_ns;
      }
    }
    reply.remaining = UINT32_MAX;
    for (std::size_t i = 0; i < count; ++i) {
      if (reply.status == Status::ok) {
        each[i] = one_layer(layers[i], protocol::Op::take, request.priority, now);
        reply.granted += std::min(each[i].granted, UINT32_MAX - reply.granted);
      } else if (each[i].status == Status::ok) {  // as it is, not as it would be
        protocol::Layer look = layers[i];
        look.cost = 0;
        each[i] = one_layer(look, protocol::Op::peek, request.priority, now);
      }
      if (each[i].remaining < reply.remaining) {
        reply.remaining = each[i].remaining;
        reply.limit = each[i].limit;
      }
      reply.reset_ns = std::max(reply.reset_ns, each[i].reset_ns);
    }
  }

  void lease(const protocol::Request& request, const frontend::Now& now_read,
             protocol::Reply& reply) {
    const auto* const policy = find_policy(request.policy);
    reply.status = protocol::Status::unknown_policy;
    if (policy == nullptr) return;
    reply.policy_version = 1;
    protocol::Layer ask{request.policy, 0, request.key};
    const auto decide_it = [&](protocol::Op op) {
      const auto tag = reply.tag;
      reply = one_layer(ask, op, request.priority, engine::usable_now(now_read.ticks));
      reply.op = request.op;
      reply.tag = tag;
      reply.policy_version = 1;
    };
    decide_it(protocol::Op::peek);
    const std::uint32_t offer =
        std::min(request.cost, reply.remaining * policy->lease.share_percent / 100);
    if (reply.remaining == 0) {
      ask.cost = 1;
      decide_it(protocol::Op::peek);
    } else if (policy->lease.ttl_ns != 0 && offer >= policy->lease.least) {
      ask.cost = offer;
      decide_it(protocol::Op::take);
    }
  }

  void give_back(const protocol::Request& request, const frontend::Now& now_read,
                 protocol::Reply& reply) {
    reply.status = protocol::Status::bad_request;
    const auto found = leases_.find(request.grant);
    if (found == leases_.end()) return;
    const Granted lease = found->second;
    if (now_read.us - lease.at_us >= fast_policy().lease.ttl_ns / 1000) return;
    if (request.cost > lease.tokens) return;
    // As an estimate that is settled to the rest.
    protocol::Request rest = request;
    rest.cost = lease.tokens - request.cost;
    grants_.swap(leases_);
    settle(rest, now_read, reply);
    grants_.swap(leases_);
    if (reply.status == protocol::Status::ok) reply.granted = lease.tokens - reply.granted;
  }

  void settle(const protocol::Request& request, const frontend::Now& now_read,
              protocol::Reply& reply) {
    using protocol::Status;
    const engine::Ticks now = engine::usable_now(now_read.ticks);
    reply.status = Status::bad_request;
    const auto found = grants_.find(request.grant);
    if (found == grants_.end()) return;
    const Granted granted = found->second;
    if (now_read.us - granted.at_us >= frontend::GrantLedger::kTtlUs) return;
    if (find_policy(request.policy) == nullptr) {
      reply.status = Status::unknown_policy;
      return;
    }
    if (granted.policy != request.policy || granted.key != protocol::as_text(request.key)) return;
    grants_.erase(found);
    const auto limit = *engine::make_token_bucket(find_policy(request.policy)->rate);
    engine::Word& word = words_[{granted.policy, granted.key}];
    reply.status = Status::ok;
    reply.policy_version = 1;
    reply.limit = limit.burst;
    reply.granted = granted.tokens;
    if (request.cost < granted.tokens && granted.resets == resets_[cell_of(request)]) {
      const engine::Word next =
          engine::refunded(limit, word, now, granted.tokens - request.cost, now - granted.at);
      if (next != 0) {
        reply.granted -= engine::tokens_given_back(limit, word, next);
        word = next;
      }
    } else if (request.cost > granted.tokens) {
      const engine::Ask more{request.cost - granted.tokens, 0, true};
      const engine::Step step = engine::take(limit, word, now, more);
      if (step.verdict == engine::Verdict::admitted) {
        reply.granted += step.granted;
        word = step.next;
      }
    }
    reply.remaining = engine::remaining(limit, word, now, 0);
    reply.reset_ns = engine::ns_rounded_up(engine::reset_after(word, now));
  }

  struct Granted {
    std::uint32_t policy = 0;
    std::string key;
    std::uint32_t tokens = 0;
    engine::Ticks at = 0;
    std::uint64_t at_us = 0;
    std::uint32_t resets = 0;  // of its cell, when it was given
  };

  // Where the engine counts the RESETs of a key: keys may share a cell.
  static std::size_t cell_of(const protocol::Request& request) {
    engine::Identity identity;
    if (request.policy != 0) {
      identity = {engine::Identity::Kind::by_policy, engine::Algorithm::token_bucket,
                  request.policy, 0};
    }
    const engine::KeyHasher hasher(engine::HashSecret{});
    return engine::KeyHasher::hash(hasher.prefix(identity), request.key).high %
           engine::ResetFence::kCells;
  }

  using Key = std::pair<std::uint32_t, std::string>;
  std::map<std::uint64_t, Granted> grants_;
  std::map<std::uint64_t, Granted> leases_;
  std::map<std::size_t, std::uint32_t> resets_;
  std::map<Key, engine::Word> before_layers_;
  std::map<Key, engine::Word> words_;
  Key last_;
  bool was_live_ = false;
};

}  // namespace pail::test
