// INCR, EXPIRE and their kin, as limiters use them: a count that ends.
#include <algorithm>
#include <optional>

#include "server/engine/counter.hpp"
#include "server/frontend/resp/answers.hpp"
#include "server/frontend/resp/integers.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::frontend {

using engine::CounterAction;
using engine::CounterCondition;
using resp::CommandId;
using resp::is_word;
using resp::read_integer;
using resp::Writer;

namespace {

constexpr std::string_view kBadKey = "ERR a key is 1 to 1024 bytes";
constexpr std::string_view kNoInteger = "ERR value is not an integer or out of range";
constexpr std::string_view kBeyond =
    "ERR value is out of range: counters hold -4294967295 to 4294967295";
constexpr std::string_view kBadExpiry =
    "ERR invalid expire time: a counter lives for 1 ms to 366 days";
constexpr std::string_view kSyntax = "ERR syntax error";

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kMaxMs = static_cast<std::int64_t>(engine::kMaxCounterNs) / kNsPerMs;

bool is_key(std::string_view word) noexcept {
  return word.size() >= engine::kMinKeyBytes && word.size() <= engine::kMaxKeyBytes;
}

// A time to live in nanoseconds; nothing: no integer, negative, or too long.
std::optional<std::uint64_t> read_life(std::string_view word, bool is_ms) noexcept {
  const std::int64_t ms_per_unit = is_ms ? 1 : 1000;
  const auto units = read_integer(word, 0, kMaxMs / ms_per_unit);
  if (!units) return {};
  return static_cast<std::uint64_t>(*units * ms_per_unit * kNsPerMs);
}

}  // namespace

// False: refused.
bool Resp::count(engine::CounterRequest& request, std::string_view key, Writer& out,
                 engine::CounterAnswer& answer) noexcept {
  if (!is_key(key)) return refuse(out, kBadKey), false;
  request.key = protocol::as_body(key);
  worker_.count(request, now_.ticks, answer);
  if (!answer.is_full) return true;
  counters_.add(RespCount::table_full);
  out.error(resp::kNoRoom);
  return false;
}

void Resp::increment(std::string_view key, std::optional<std::int64_t> amount,
                     Writer& out) noexcept {
  if (!amount) return refuse(out, kNoInteger);
  engine::CounterRequest request{.action = CounterAction::add, .amount = *amount};
  engine::CounterAnswer answer;
  if (!count(request, key, out, answer)) return;
  answer.is_done ? out.integer(answer.value) : refuse(out, kBeyond);
}

// EXPIRE and PEXPIRE: key time [NX|XX|GT|LT].
void Resp::expire(Words arguments, bool is_ms, Writer& out) noexcept {
  engine::CounterRequest request{.action = CounterAction::expire};
  if (arguments.size() > 2) {
    const std::string_view option = arguments[2];
    if (is_word(option, "nx")) {
      request.condition = CounterCondition::if_no_expiry;
    } else if (is_word(option, "xx")) {
      request.condition = CounterCondition::if_expiry;
    } else if (is_word(option, "gt")) {
      request.condition = CounterCondition::if_later;
    } else if (is_word(option, "lt")) {
      request.condition = CounterCondition::if_sooner;
    } else {
      return refuse(out, "ERR unsupported option: NX, XX, GT and LT there are");
    }
  }
  const auto time = read_integer(arguments[1]);
  if (!time) return refuse(out, kNoInteger);
  // A time in the past ends it now.
  request.life_ns = *time <= 0 ? std::optional<std::uint64_t>(0) : read_life(arguments[1], is_ms);
  if (!request.life_ns) return refuse(out, kBadExpiry);
  engine::CounterAnswer answer;
  if (count(request, arguments[0], out, answer)) out.integer(answer.is_done ? 1 : 0);
}

// SET key value [EX s|PX ms|KEEPTTL] [NX|XX]
void Resp::set_counter(Words arguments, Writer& out) noexcept {
  engine::CounterRequest request{.action = CounterAction::set};
  const auto value = read_integer(arguments[1]);
  if (!value) return refuse(out, "ERR value is not an integer: only counters are kept here");
  if (*value < engine::kLeastCounted || *value > engine::kMostCounted) return refuse(out, kBeyond);
  request.amount = *value;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    const bool is_ms = is_word(option, "px");
    if ((is_ms || is_word(option, "ex")) && i + 1 < arguments.size() && !request.life_ns) {
      request.life_ns = read_life(arguments[++i], is_ms);
      if (!request.life_ns || *request.life_ns == 0) return refuse(out, kBadExpiry);
    } else if (is_word(option, "nx") && request.condition == CounterCondition::always) {
      request.condition = CounterCondition::if_absent;
    } else if (is_word(option, "xx") && request.condition == CounterCondition::always) {
      request.condition = CounterCondition::if_present;
    } else if (is_word(option, "keepttl")) {
      request.keeps_end = true;
    } else {
      return refuse(out, kSyntax);
    }
  }
  if (request.keeps_end && request.life_ns) return refuse(out, kSyntax);
  engine::CounterAnswer answer;
  if (!count(request, arguments[0], out, answer)) return;
  answer.is_done ? out.simple("OK") : out.null();
}

// INCREX key [BYINT n] [LBOUND n] [UBOUND n] [EX s|PX ms] [ENX]: the value, and what was added to
// it: 0 where it would have gone beyond a bound, and then nothing has changed.
void Resp::increment_within(Words arguments, Writer& out) noexcept {
  engine::CounterRequest request{.action = CounterAction::add, .amount = 1};
  bool is_only_new = false;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view option = arguments[i];
    if (is_word(option, "enx")) {
      is_only_new = true;
      continue;
    }
    if (i + 1 == arguments.size()) return refuse(out, kSyntax);
    const std::string_view word = arguments[++i];
    const bool is_ms = is_word(option, "px");
    if (is_ms || is_word(option, "ex")) {
      if (request.life_ns) return refuse(out, kSyntax);
      request.life_ns = read_life(word, is_ms);
      if (!request.life_ns || *request.life_ns == 0) return refuse(out, kBadExpiry);
      continue;
    }
    const auto value = read_integer(word);
    if (!value) return refuse(out, kNoInteger);
    if (is_word(option, "byint")) {
      request.amount = *value;
    } else if (is_word(option, "lbound")) {
      request.least = std::max(*value, engine::kLeastCounted);
    } else if (is_word(option, "ubound")) {
      request.most = std::min(*value, engine::kMostCounted);
    } else {
      return refuse(out, kSyntax);
    }
  }
  if (request.least > request.most) return refuse(out, "ERR LBOUND is above UBOUND");
  if (is_only_new) {
    if (!request.life_ns) return refuse(out, "ERR ENX is for EX or PX");
    request.condition = CounterCondition::if_no_expiry;
  }
  engine::CounterAnswer answer;
  if (!count(request, arguments[0], out, answer)) return;
  out.array(2);
  out.integer(answer.value);
  out.integer(answer.is_done ? request.amount : 0);
}

// DEL and EXISTS: how many of the keys there were.
void Resp::count_keys(CounterAction action, Words keys, Writer& out) noexcept {
  std::int64_t existing = 0;
  for (const std::string_view key : keys) {
    if (!is_key(key)) return refuse(out, kBadKey);
  }
  for (const std::string_view key : keys) {
    engine::CounterRequest request{.action = action};
    engine::CounterAnswer answer;
    if (!count(request, key, out, answer)) return;
    existing += answer.exists ? 1 : 0;
  }
  out.integer(existing);
}

void Resp::run_counter(CommandId id, Words arguments, Writer& out) noexcept {
  if (service_ == Service::shedding) {
    counters_.add(RespCount::overloaded);
    return out.error(resp::kOverloaded);
  }
  counters_.add(RespCount::counter_commands);
  const std::string_view key = arguments[0];
  engine::CounterRequest look;
  engine::CounterAnswer answer;
  switch (id) {
    case CommandId::incr:
      return increment(key, 1, out);
    case CommandId::decr:
      return increment(key, -1, out);
    case CommandId::incrby:
      return increment(key, read_integer(arguments[1]), out);
    case CommandId::decrby: {
      const auto amount =
          read_integer(arguments[1], -engine::kMostCounted * 2, engine::kMostCounted * 2);
      return increment(key, amount ? std::optional(-*amount) : std::nullopt, out);
    }
    case CommandId::increx:
      return increment_within(arguments, out);
    case CommandId::expire:
      return expire(arguments, false, out);
    case CommandId::pexpire:
      return expire(arguments, true, out);
    case CommandId::set:
      return set_counter(arguments, out);
    case CommandId::del:
      return count_keys(CounterAction::remove, arguments, out);
    case CommandId::exists:
      return count_keys(CounterAction::look, arguments, out);
    case CommandId::get:
      if (!count(look, key, out, answer)) return;
      if (!answer.exists) return out.null();
      return out.bulk_integer(answer.value);
    case CommandId::ttl:
    case CommandId::pttl:
      if (!count(look, key, out, answer)) return;
      if (!answer.exists) return out.integer(-2);
      if (!answer.has_expiry) return out.integer(-1);
      if (id == CommandId::pttl) return out.integer(resp::whole_ms(answer.left_ns));
      return out.integer((resp::whole_ms(answer.left_ns) + 500) / 1000);  // as Redis rounds
    default:
      return;
  }
}

}  // namespace pail::frontend
