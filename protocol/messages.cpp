#include "protocol/messages.hpp"

#include <xxhash.h>

namespace pail::protocol {

std::string_view name(Op op) noexcept {
  switch (op) {
    case Op::ping:
      return "ping";
    case Op::take:
      return "take";
    case Op::peek:
      return "peek";
    case Op::take_all:
      return "take_all";
    case Op::lease:
      return "lease";
    case Op::give_back:
      return "return";
    case Op::settle:
      return "settle";
    case Op::acquire:
      return "acquire";
    case Op::renew:
      return "renew";
    case Op::release:
      return "release";
    case Op::reset:
      return "reset";
    case Op::policy:
      return "policy";
    case Op::stats:
      return "stats";
    case Op::goaway:
      return "goaway";
    case Op::policy_changed:
      return "policy_changed";
    case Op::hello:
      return "hello";
  }
  return "unknown";
}

std::string_view name(Status status) noexcept {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::denied:
      return "denied";
    case Status::shed:
      return "shed";
    case Status::never:
      return "never";
    case Status::table_full:
      return "table_full";
    case Status::expired:
      return "expired";
    case Status::unknown_policy:
      return "unknown_policy";
    case Status::bad_request:
      return "bad_request";
    case Status::unauthorized:
      return "unauthorized";
    case Status::overloaded:
      return "overloaded";
    case Status::not_supported:
      return "not_supported";
  }
  return "unknown";
}

std::uint32_t policy_id(std::string_view policy_name) noexcept {
  const std::uint32_t hash = XXH32(policy_name.data(), policy_name.size(), 0);
  return hash == 0 ? 1 : hash;
}

}  // namespace pail::protocol
