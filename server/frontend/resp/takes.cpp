// What is decided in groups: CL.THROTTLE, and PAIL.TAKE and PAIL.PEEK of named policies.
#include <algorithm>

#include "server/engine/rate.hpp"
#include "server/frontend/resp/answers.hpp"
#include "server/frontend/resp/integers.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using resp::CommandId;
using resp::read_integer;
using resp::Writer;

namespace {

constexpr std::int64_t kMaxCount = 0xFFFF'FFFF;
constexpr std::int64_t kMaxPeriodS =
    static_cast<std::int64_t>(engine::kMaxPeriodNs / 1'000'000'000);
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// Errors begin with their code, as in Redis.
constexpr std::string_view kWrongCount = "ERR wrong number of arguments";
constexpr std::string_view kBadBurst = "ERR max_burst must be an integer from 0 to 4294967294";
constexpr std::string_view kBadCount =
    "ERR count_per_period must be an integer from 1 to 4294967295";
constexpr std::string_view kBadPeriod =
    "ERR period must be an integer of seconds from 1 to 31622400";
constexpr std::string_view kBadQuantity = "ERR quantity must be an integer from 0 to 4294967295";
constexpr std::string_view kBadCost = "ERR cost must be an integer from 1 to 4294967295";
constexpr std::string_view kBadLook = "ERR cost must be an integer from 0 to 4294967295";

// One entry's answer: numbers in a map with names, or an error.
constexpr std::size_t kMaxAnswerBytes = 256;
static_assert(Resp::kGroup * kMaxAnswerBytes <= ReplyBlock::kRoomBytes);

// CL.THROTTLE tells whole seconds: a begun one counts, the dust of the last microsecond does not,
// because a bucket of 10 in 10 s would else be told to wait for 11.
constexpr std::int64_t whole_seconds(std::uint64_t ns) noexcept {
  const std::uint64_t us = ns / 1000;
  return static_cast<std::int64_t>(us / 1'000'000 + (us % 1'000'000 != 0 ? 1 : 0));
}
static_assert(whole_seconds(2'000'000'000) == 2 && whole_seconds(2'001'000'000) == 3);

constexpr std::string_view status_text(engine::Verdict verdict) noexcept {
  switch (verdict) {
    case engine::Verdict::admitted:
      return "ok";
    case engine::Verdict::denied:
      return "denied";
    case engine::Verdict::shed:
      return "shed";
    case engine::Verdict::never:
      return "never";
    case engine::Verdict::table_full:
    case engine::Verdict::busy:
    case engine::Verdict::unknown_policy:
    case engine::Verdict::bad_request:
      break;
  }
  return "error";
}

// `words` has the right number of them. The fault, or empty.
std::string_view read_throttle(const resp::Command& command, engine::Request& ask) noexcept {
  const auto& words = command.words;
  const auto burst = read_integer(words[2], 0, kMaxCount - 1);
  if (!burst) return kBadBurst;
  const auto count = read_integer(words[3], 1, kMaxCount);
  if (!count) return kBadCount;
  const auto period_s = read_integer(words[4], 1, kMaxPeriodS);
  if (!period_s) return kBadPeriod;
  std::int64_t quantity = 1;
  if (command.count > 5) {
    const auto given = read_integer(words[5], 0, kMaxCount);
    if (!given) return kBadQuantity;
    quantity = *given;
  }
  ask.action = quantity == 0 ? engine::Action::peek : engine::Action::take;
  ask.has_inline_rate = true;
  ask.inline_rate = {static_cast<std::uint64_t>(*period_s) * kNsPerSecond,
                     static_cast<std::uint32_t>(*count), static_cast<std::uint32_t>(*burst + 1)};
  ask.cost = static_cast<std::uint32_t>(quantity);
  ask.key = protocol::as_body(words[1]);
  return {};
}

std::string_view read_take(const resp::Command& command, bool is_take,
                           engine::Request& ask) noexcept {
  std::int64_t cost = is_take ? 1 : 0;
  if (command.count > 3) {
    const auto given = read_integer(command.words[3], cost, kMaxCount);
    if (!given) return is_take ? kBadCost : kBadLook;
    cost = *given;
  }
  ask.action = is_take ? engine::Action::take : engine::Action::peek;
  ask.has_inline_rate = false;
  ask.policy = protocol::policy_id(command.words[1]);
  ask.cost = static_cast<std::uint32_t>(cost);
  ask.key = protocol::as_body(command.words[2]);
  return {};
}

}  // namespace

void Resp::add(const resp::CommandSpec& spec, const resp::Command& command) noexcept {
  engine::Request& ask = group_.requests[group_.request_count];
  std::string_view fault;
  if (command.count < spec.least_words || command.count > spec.most_words) {
    fault = kWrongCount;
  } else if (service_ == Service::shedding) {
    fault = resp::kOverloaded;
  } else if (spec.id == CommandId::throttle) {
    fault = read_throttle(command, ask);
  } else {
    fault = read_take(command, spec.id == CommandId::take, ask);
  }
  group_.entries[group_.size++] = {&spec, fault};
  if (fault.empty()) ++group_.request_count;
}

bool Resp::answer_group(const RespSession& session, ReplyQueue& replies) noexcept {
  if (group_.size == 0) return true;
  worker_.decide({group_.requests.data(), group_.request_count}, now_.ticks,
                 {group_.decisions.data(), group_.request_count});
  const auto room = replies.room(group_.size * kMaxAnswerBytes, pool_);
  if (room.empty()) return false;
  Writer out(room, session.is_resp3_);
  const engine::Decision* decision = group_.decisions.data();
  for (std::size_t i = 0; i < group_.size; ++i) {
    const Group::Entry& entry = group_.entries[i];
    if (entry.fault.empty()) {
      answer(out, entry.spec->id, *decision++);
    } else if (entry.fault == kWrongCount) {
      refuse_usage(out, *entry.spec);
    } else {
      counters_.add(entry.fault == resp::kOverloaded ? RespCount::overloaded : RespCount::errors);
      out.error(entry.fault);
    }
  }
  replies.append(out.size_bytes());
  counters_.add(RespCount::commands, group_.size);
  counters_.add(RespCount::batches);
  group_.size = 0;
  group_.request_count = 0;
  return true;
}

bool Resp::is_decision(Writer& out, const engine::Decision& decision) noexcept {
  using engine::Verdict;
  switch (decision.verdict) {
    case Verdict::admitted:
      counters_.add(RespCount::admitted);
      return true;
    case Verdict::denied:
    case Verdict::shed:
    case Verdict::never:
      counters_.add(RespCount::denied);
      return true;
    case Verdict::table_full:
      counters_.add(RespCount::table_full);
      out.error(resp::kNoRoom);
      return false;
    case Verdict::busy:
      counters_.add(RespCount::overloaded);
      out.error("OVERLOADED something is just being given back to this key: ask again");
      return false;
    case Verdict::unknown_policy:
      refuse(out, "ERR the server has no policy of this name");
      return false;
    case Verdict::bad_request:
      counters_.add(RespCount::errors);
      out.raw("-ERR ");
      out.raw(decision.reason);
      out.line_end();
      return false;
  }
  return false;
}

void Resp::answer(Writer& out, CommandId id, const engine::Decision& decision) noexcept {
  if (id != CommandId::throttle) return static_cast<void>(begin_answer(out, decision, 0));
  if (is_decision(out, decision)) answer_throttle(out, decision);
}

void Resp::answer_throttle(Writer& out, const engine::Decision& decision) noexcept {
  const bool is_admitted = decision.verdict == engine::Verdict::admitted;
  const bool is_told_to_wait = !is_admitted && decision.verdict != engine::Verdict::never;
  out.array(5);
  out.integer(is_admitted ? 0 : 1);
  out.integer(decision.limit);
  out.integer(decision.remaining);
  // Never 0, which would be "now".
  out.integer(is_told_to_wait ? std::max<std::int64_t>(whole_seconds(decision.wait_ns), 1) : -1);
  out.integer(whole_seconds(decision.reset_ns));
}

bool Resp::begin_answer(Writer& out, const engine::Decision& decision, std::size_t more) noexcept {
  if (!is_decision(out, decision)) return false;
  out.fields(5 + more);
  out.field("status");
  out.simple(status_text(decision.verdict));
  out.field("limit");
  out.integer(decision.limit);
  out.field("remaining");
  out.integer(decision.remaining);
  out.field("retry_after_ms");
  out.integer(resp::whole_ms(decision.wait_ns));
  out.field("reset_after_ms");
  out.integer(resp::whole_ms(decision.reset_ns));
  return true;
}

}  // namespace pail::frontend
