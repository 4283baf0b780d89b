#include "bench/target.hpp"

namespace pail::bench {

std::string_view name(const Target& target) noexcept {
  switch (target.kind) {
    case TargetKind::pail:
      return "pail";
    case TargetKind::echo:
      return "echo";
    case TargetKind::memcached:
      return "memcached";
    case TargetKind::redis:
      break;
  }
  switch (target.method) {
    case RedisMethod::lua:
      return "redis lua";
    case RedisMethod::incr:
      return "redis incr";
    case RedisMethod::throttle:
      return target.is_own ? "pail throttle" : "redis throttle";
  }
  return "unknown";
}

}  // namespace pail::bench
