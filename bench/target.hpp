// What kind of server a run talks to, and in which words.
#pragma once

#include <cstdint>
#include <string_view>

namespace pail::bench {

enum class TargetKind : std::uint8_t { pail, echo, redis, memcached };

// How a Redis (or what speaks like one) is asked for a rate limit.
enum class RedisMethod : std::uint8_t {
  lua,       // EVALSHA of the usual token bucket: HMGET, refill, HMSET, PEXPIRE, the server's TIME
  incr,      // INCR and EXPIRE ... NX: a counter a window, which is not a token bucket
  throttle,  // CL.THROTTLE of a module, or of Pail's own RESP front end
};

struct Target {
  TargetKind kind = TargetKind::pail;
  RedisMethod method = RedisMethod::lua;
  bool is_own = false;  // of kind redis: Pail's own RESP front end, asked as a Redis is

  [[nodiscard]] bool is_native() const noexcept {
    return kind == TargetKind::pail || kind == TargetKind::echo;
  }
};

// "pail", "echo", "redis lua", "redis incr", "redis throttle", "pail throttle", "memcached".
[[nodiscard]] std::string_view name(const Target& target) noexcept;

}  // namespace pail::bench
