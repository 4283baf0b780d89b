// Short names for asking an engine.
#pragma once

#include <span>
#include <string_view>

#include "server/engine/engine.hpp"

namespace pail::test {

inline constexpr engine::Ticks kSecond = engine::ticks_from_ns(1'000'000'000);
inline constexpr engine::Ticks kStart = 1000 * kSecond;

inline std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// `key` must outlive the request.
inline engine::Request take(std::string_view key, engine::Rate rate, std::uint32_t cost = 1) {
  engine::Request request;
  request.has_inline_rate = true;
  request.inline_rate = rate;
  request.cost = cost;
  request.key = bytes(key);
  return request;
}

inline engine::Request take(std::string_view key, std::uint32_t policy, std::uint32_t cost = 1) {
  engine::Request request;
  request.policy = policy;
  request.cost = cost;
  request.key = bytes(key);
  return request;
}

inline engine::Request with(engine::Action action, engine::Request request) {
  request.action = action;
  return request;
}

inline engine::Decision decide(engine::Worker& worker, const engine::Request& request,
                               engine::Ticks now) {
  engine::Decision decision;
  worker.decide({&request, 1}, now, {&decision, 1});
  return decision;
}

}  // namespace pail::test
