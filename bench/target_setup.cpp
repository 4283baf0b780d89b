#include "bench/target_setup.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "bench/key_source.hpp"
#include "bench/socket.hpp"

namespace pail::bench {
namespace {

constexpr timeval kPatience{10, 0};

// The token bucket that gateways keep in Redis: tokens and time of the last refill in a hash, the
// server's own clock, and an expiry of when the bucket is full again.
constexpr std::string_view kTokenBucket = R"lua(
local burst = tonumber(ARGV[1])
local per_us = tonumber(ARGV[2]) / (tonumber(ARGV[3]) * 1000)
local cost = tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local state = redis.call('HMGET', KEYS[1], 't', 'u')
local tokens = tonumber(state[1]) or burst
local last = tonumber(state[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - last) * per_us)
local admitted = 0
if tokens >= cost then
  tokens = tokens - cost
  admitted = 1
end
redis.call('HMSET', KEYS[1], 't', tostring(tokens), 'u', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / per_us / 1000) + 1)
return {admitted, math.floor(tokens)}
)lua";

// Blocking, a line at a time.
class Conversation {
 public:
  explicit Conversation(Socket socket) : socket_(std::move(socket)) {
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    setsockopt(socket_.fd(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  }

  [[nodiscard]] bool say(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.fd(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // Without its end. Empty: the server is gone, or silent.
  [[nodiscard]] std::string line() {
    std::size_t end = 0;
    while ((end = received_.find('\n')) == std::string::npos) {
      std::array<char, 4096> part;
      const ssize_t size = recv(socket_.fd(), part.data(), part.size(), 0);
      if (size <= 0) return "";
      received_.append(part.data(), static_cast<std::size_t>(size));
    }
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }

 private:
  Socket socket_;
  std::string received_;
};

tl::unexpected<std::string> unlike(const LoadOptions& options, std::string_view what,
                                   const std::string& answer) {
  return tl::unexpected(fmt::format("{}: {}: the server answered '{}'", options.server.text, what,
                                    answer.empty() ? "nothing" : answer));
}

tl::expected<void, std::string> load_script(LoadOptions& options, Conversation& talk) {
  const std::string command = fmt::format("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{}\r\n",
                                          kTokenBucket.size(), kTokenBucket);
  const std::string size = talk.say(command) ? talk.line() : "";
  if (size != "$40") return unlike(options, "SCRIPT LOAD", size);
  options.script_sha = talk.line();
  return {};
}

tl::expected<void, std::string> look_for_throttle(const LoadOptions& options, Conversation& talk) {
  // A look, where quantity 0 is one; what matters is that there is no error.
  const bool is_said = talk.say(
      "*6\r\n$11\r\nCL.THROTTLE\r\n$10\r\npail-bench\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n1\r\n$"
      "1\r\n0\r\n");
  const std::string answer = is_said ? talk.line() : "";
  if (!answer.starts_with('*')) return unlike(options, "CL.THROTTLE", answer);
  return {};
}

tl::expected<void, std::string> create_counters(const LoadOptions& options, Conversation& talk) {
  constexpr std::uint32_t kAtOnce = 1000;
  const std::string filler = key_filler(options.key_size_bytes);
  const std::size_t digits = digits_in(options.key_size_bytes);
  for (std::uint32_t key = 0; key < options.keys;) {
    const std::uint32_t count = std::min(kAtOnce, options.keys - key);
    std::string text;
    for (std::uint32_t i = 0; i < count; ++i, ++key) {
      std::array<std::byte, kKeyDigits> written{};
      write_key_digits(key, written.data() + digits, digits);
      text += fmt::format("set {}{} 0 0 1\r\n0\r\n", filler,
                          std::string_view(reinterpret_cast<const char*>(written.data()), digits));
    }
    if (!talk.say(text)) return unlike(options, "set", "");
    for (std::uint32_t i = 0; i < count; ++i) {
      if (const std::string answer = talk.line(); answer != "STORED") {
        return unlike(options, "set", answer);
      }
    }
  }
  return {};
}

}  // namespace

tl::expected<void, std::string> prepare_target(LoadOptions& options) {
  if (options.target.is_native()) return {};
  auto socket = connect_to(options.server, options.congestion);
  if (!socket) return tl::unexpected(socket.error());
  Conversation talk(std::move(*socket));
  if (options.target.kind == TargetKind::memcached) return create_counters(options, talk);
  switch (options.target.method) {
    case RedisMethod::lua:
      return load_script(options, talk);
    case RedisMethod::throttle:
      return look_for_throttle(options, talk);
    case RedisMethod::incr:
      return {};
  }
  return {};
}

}  // namespace pail::bench
