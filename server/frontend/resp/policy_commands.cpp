// What named policies can be asked one by one: several at once, permits, estimates, RESET.
#include <array>
#include <charconv>
#include <optional>

#include "server/frontend/resp/answers.hpp"
#include "server/frontend/resp/integers.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using resp::CommandId;
using resp::is_word;
using resp::read_integer;
using resp::Writer;

namespace {

constexpr std::int64_t kMaxCost = 0xFFFF'FFFF;
constexpr std::size_t kWordsPerLayer = 3;

constexpr std::string_view kNoGrant =
    "ERR grant must be a number from 0 to 18446744073709551615, as ACQUIRE, RENEW or TAKE gave it";

// Ids have all of 64 bits, so they travel as text. 0 is nobody's: of what was let through
// uncounted.
std::optional<std::uint64_t> read_id(std::string_view word) noexcept {
  std::uint64_t id = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, fault] = std::from_chars(word.data(), end, id);
  if (fault != std::errc{} || stopped != end) return std::nullopt;
  return id;
}

constexpr bool gives_back(CommandId id) noexcept {
  return id == CommandId::renew || id == CommandId::release || id == CommandId::settle ||
         id == CommandId::reset_key;
}

}  // namespace

void Resp::forget(RespSession& session) noexcept {
  grants_.drop(session.grants_);
}

// A server that sheds load still hears what gives back.
void Resp::run_policy(RespSession& session, CommandId id, Words arguments, Writer& out) noexcept {
  if (service_ == Service::shedding && !gives_back(id)) {
    counters_.add(RespCount::overloaded);
    return out.error(resp::kOverloaded);
  }
  switch (id) {
    case CommandId::take:
      return take_to_settle(session, arguments, out);
    case CommandId::take_all:
      return take_all(arguments, out);
    case CommandId::acquire:
    case CommandId::renew:
    case CommandId::release:
      return run_permit(id, arguments, out);
    case CommandId::settle:
      return settle(session, arguments, out);
    default:
      return reset_key(session, arguments, out);
  }
}

// A request for `key` under the policy, of the cost that `word` gives. Nothing: refused.
std::optional<engine::Request> Resp::read_single(std::string_view policy, std::string_view key,
                                                 std::string_view cost, std::int64_t least_cost,
                                                 Writer& out) noexcept {
  const auto value = read_integer(cost, least_cost, kMaxCost);
  if (!value) {
    refuse(out, least_cost == 0 ? "ERR cost must be an integer from 0 to 4294967295"
                                : "ERR cost must be an integer from 1 to 4294967295");
    return {};
  }
  engine::Request ask;
  ask.policy = protocol::policy_id(policy);
  ask.key = protocol::as_body(key);
  ask.cost = static_cast<std::uint32_t>(*value);
  return ask;
}

void Resp::answer_grant(Writer& out, const engine::Decision& decision, std::uint64_t id,
                        std::uint64_t ttl_ns) noexcept {
  if (!begin_answer(out, decision, 2)) return;
  const bool is_given = decision.verdict == engine::Verdict::admitted;
  out.field("grant");
  is_given ? out.bulk_integer(id) : out.null();
  out.field("grant_ttl_ms");
  out.integer(is_given ? static_cast<std::int64_t>(ttl_ns / 1'000'000) : 0);
}

// PAIL.TAKE policy key cost GRANT: an estimate, to be settled.
void Resp::take_to_settle(RespSession& session, Words arguments, Writer& out) noexcept {
  if (!is_word(arguments[3], "grant")) {
    return refuse(out, "ERR syntax error: behind the cost stands GRANT or nothing");
  }
  const auto ask = read_single(arguments[0], arguments[1], arguments[2], 1, out);
  if (!ask) return;
  if (!grants_.has_room(session.grants_, now_.us)) {
    counters_.add(RespCount::overloaded);
    return out.error("OVERLOADED too many grants are not settled: 4096 a connection");
  }
  engine::Decision decision;
  engine::Receipt receipt;
  worker_.take_to_settle(*ask, now_.ticks, decision, receipt);
  std::uint64_t id = 0;
  if (decision.verdict == engine::Verdict::admitted) {
    id = grants_.add(session.grants_, receipt, now_.us);
  }
  answer_grant(out, decision, id, GrantLedger::kTtlUs * 1000);
}

// PAIL.SETTLE policy key grant cost
void Resp::settle(RespSession& session, Words arguments, Writer& out) noexcept {
  const auto ask = read_single(arguments[0], arguments[1], arguments[3], 0, out);
  if (!ask) return;
  const auto id = read_id(arguments[2]);
  if (!id) return refuse(out, kNoGrant);
  const engine::Receipt* const receipt = grants_.find(session.grants_, *id, now_.us);
  if (receipt == nullptr) {
    return refuse(out, "ERR this connection has no such grant: settled, expired, or another's");
  }
  engine::Decision decision;
  worker_.settle(*ask, *receipt, now_.ticks, decision);
  // What is refused (another key, say) has settled nothing.
  if (decision.verdict == engine::Verdict::admitted) grants_.use_up(*id);
  if (!begin_answer(out, decision, 1)) return;
  out.field("charged");
  out.integer(decision.granted);
}

// PAIL.ACQUIRE policy key [cost], PAIL.RENEW and PAIL.RELEASE policy key grant [cost]
void Resp::run_permit(CommandId id, Words arguments, Writer& out) noexcept {
  const bool is_new = id == CommandId::acquire;
  const std::size_t cost_at = is_new ? 2 : 3;
  const std::string_view cost = arguments.size() > cost_at ? arguments[cost_at] : "1";
  const auto ask = read_single(arguments[0], arguments[1], cost, 1, out);
  if (!ask) return;
  const auto written = is_new ? std::optional<std::uint64_t>(0) : read_id(arguments[2]);
  if (!written) return refuse(out, kNoGrant);
  engine::Decision decision;
  engine::Grant grant{.id = *written};
  if (id == CommandId::release) {
    worker_.release(*ask, grant.id, now_.ticks, decision);
    if (!begin_answer(out, decision, 1)) return;
    out.field("released");
    return out.integer(decision.granted);
  }
  is_new ? worker_.acquire(*ask, now_.ticks, decision, grant)
         : worker_.renew(*ask, now_.ticks, decision, grant);
  answer_grant(out, decision, grant.id, grant.ttl_ns);
}

// PAIL.TAKEALL policy key cost [policy key cost ...]
void Resp::take_all(Words arguments, Writer& out) noexcept {
  std::array<engine::Layer, engine::kMaxLayers> layers;
  const std::size_t count = arguments.size() / kWordsPerLayer;
  if (arguments.size() % kWordsPerLayer != 0 || count > layers.size()) {
    return refuse(out, "ERR PAIL.TAKEALL takes 1 to 8 times: policy key cost");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Words words = arguments.subspan(i * kWordsPerLayer, kWordsPerLayer);
    const auto ask = read_single(words[0], words[1], words[2], 1, out);
    if (!ask) return;
    layers[i] = {ask->policy, ask->cost, ask->key};
  }
  engine::LayersDecision all;
  worker_.take_all(std::span(layers).first(count), 0, now_.ticks, all);
  if (!begin_answer(out, all.decision, 2)) return;
  out.field("layer");  // which one refused
  out.integer(all.layer == engine::kNoLayer ? -1 : all.layer);
  out.field("layers");
  out.array(count);
  for (std::size_t i = 0; i < count; ++i) {
    out.fields(3);
    out.field("limit");
    out.integer(all.layers[i].limit);
    out.field("remaining");
    out.integer(all.layers[i].remaining);
    out.field("reset_after_ms");
    out.integer(resp::whole_ms(all.layers[i].reset_ns));
  }
}

// PAIL.RESET [policy] key; without a policy: what CL.THROTTLE took from.
void Resp::reset_key(const RespSession& session, Words arguments, Writer& out) noexcept {
  if (!session.permission_.is_admin) {
    return refuse(out, "NOPERM PAIL.RESET is for administrators only");
  }
  engine::Request ask;
  ask.action = engine::Action::reset;
  if (arguments.size() == 2) ask.policy = protocol::policy_id(arguments[0]);
  ask.key = protocol::as_body(arguments.back());
  engine::Decision decision;
  worker_.decide({&ask, 1}, now_.ticks, {&decision, 1});
  static_cast<void>(begin_answer(out, decision, 0));
}

}  // namespace pail::frontend
