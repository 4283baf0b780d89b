// The RESP front end with a live engine behind it, for any bytes whatever. What must hold throws
// where it does not.
//
// Every input is heard twice: cut into chunks as it asks for, and in one piece by a second server
// with the same secret and clock. How a stream is cut must change no answer. Answers are RESP, one
// to each command, and nobody gets more than a stated multiple of what was sent.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "server/frontend/resp/resp.hpp"

namespace pail::test {

// Wants one token.
class OneToken final : public frontend::Gate {
 public:
  static constexpr std::string_view kToken = "a-token-of-16-ch";
  [[nodiscard]] frontend::Permission admit(std::string_view token, bool) const noexcept override {
    return {token == kToken, false, 0};
  }
  [[nodiscard]] frontend::Permission renew(std::uint64_t, bool) const noexcept override {
    return {true, false, 0};
  }
  [[nodiscard]] std::string_view refusal() const noexcept override { return "wrong token"; }
};

struct RespSetting {
  bool wants_token = false;
  bool has_memory = true;  // else every new key finds the table full
};

class RespServer {
 public:
  explicit RespServer(const RespSetting& setting)
      : engine_(options(setting)),
        worker_(engine_.enroll()),
        pool_(pool_memory()),
        resp_(*worker_, pool_, counters_,
              {.gate = setting.wants_token ? &gate_ : nullptr, .most_grants = kMostGrants}),
        carry_(frontend::resp::kMaxCommandBytes),
        session_(carry_) {
    now_.ticks = engine::ticks_from_ns(1'000'000'000'000);
    now_.us = 1'000'000'000;
    resp_.welcome(session_);
  }
  ~RespServer() {
    resp_.forget(session_);
    replies_.clear(pool_);
  }
  RespServer(const RespServer&) = delete;
  RespServer& operator=(const RespServer&) = delete;

  // False: closed.
  bool hear(std::span<const std::byte> chunk) {
    // In memory of its own, so that a byte behind it is a fault.
    const std::vector<std::byte> own(chunk.begin(), chunk.end());
    const auto outcome = resp_.receive(session_, own, now_, replies_);
    if (outcome == frontend::Outcome::out_of_memory) throw std::runtime_error("no reply memory");
    const std::size_t before = said_.size();
    for (auto bytes = replies_.front(); !bytes.empty(); bytes = replies_.front()) {
      said_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      replies_.sent(bytes.size(), pool_);
    }
    constexpr std::size_t kLastAnswerBytes = 16 * 1024;
    if (said_.size() - before > frontend::Resp::kReplyFactor * chunk.size() +
                                    frontend::Resp::kReplyAllowanceBytes + kLastAnswerBytes) {
      throw std::runtime_error("more is answered than is stated");
    }
    return outcome == frontend::Outcome::keep;
  }
  [[nodiscard]] const std::string& said() const noexcept { return said_; }

 private:
  static constexpr std::uint32_t kMostGrants = 256;  // more than an input can ask for

  // Not allocated anew for every input: that would be most of the work.
  static std::span<std::byte> pool_memory() {
    static std::vector<std::byte> memory(32 * frontend::ReplyBlock::kSizeBytes);
    return memory;
  }

  static engine::Options options(const RespSetting& setting) {
    engine::Options options{.memory_limit_bytes =
                                setting.has_memory ? std::size_t{64} << 20 : std::size_t{0}};
    options.secret = {};
    options.policies = {{"p", protocol::policy_id("p"), {1'000'000'000, 10, 5}}};
    engine::PolicySpec jobs{"c", protocol::policy_id("c"), {}};
    jobs.algorithm = engine::Algorithm::concurrency;
    jobs.limit = 2;
    jobs.window = engine::WindowRule::every(30);
    options.policies.push_back(jobs);
    engine::PolicySpec window{"w", protocol::policy_id("w"), {}};
    window.algorithm = engine::Algorithm::sliding_window;
    window.limit = 3;
    window.window = engine::WindowRule::every(60);
    options.policies.push_back(window);
    return options;
  }

  OneToken gate_;
  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  frontend::ReplyPool pool_;
  frontend::RespCounters counters_;
  frontend::Resp resp_;
  std::vector<std::byte> carry_;
  frontend::RespSession session_;
  frontend::ReplyQueue replies_;
  frontend::Now now_;
  std::string said_;
};

// Answers, as a client reads them.
class RespAnswers {
 public:
  explicit RespAnswers(std::string_view text) : rest_(text) {}

  // How many there are, each whole and right.
  std::size_t count() {
    std::size_t count = 0;
    for (; !rest_.empty(); ++count) read_one(0);
    return count;
  }

 private:
  static void fail(const char* what) { throw std::runtime_error(what); }

  std::string_view read_line() {
    const std::size_t end = rest_.find("\r\n");
    if (end == std::string_view::npos || end == 0) fail("an answer is no line");
    const std::string_view line = rest_.substr(0, end);
    if (line.find_first_of("\r\n") != std::string_view::npos) fail("a line ends twice");
    rest_.remove_prefix(end + 2);
    return line;
  }
  static long long number(std::string_view line) {
    std::size_t used = 0;
    const std::string digits(line.substr(1));
    const long long value = std::stoll(digits, &used);
    if (used != digits.size()) fail("a number is none");
    return value;
  }
  void read_one(int depth) {
    constexpr int kMostDepth = 4;
    if (depth > kMostDepth) fail("answers within answers within answers");
    const std::string_view line = read_line();
    switch (line[0]) {
      case '+':
      case '-':
        return;
      case '_':
        if (line.size() != 1) fail("a null with something in it");
        return;
      case ':':
        return static_cast<void>(number(line));
      case '$':
      case '=': {
        const long long size = number(line);
        if (size == -1) return;
        const auto bytes = static_cast<std::size_t>(size);
        if (size < 0 || rest_.size() < bytes + 2 || rest_.substr(bytes, 2) != "\r\n") {
          fail("a bulk string has another length than it says");
        }
        rest_.remove_prefix(bytes + 2);
        return;
      }
      case '*':
      case '%': {
        const long long size = number(line) * (line[0] == '%' ? 2 : 1);
        if (size < 0) fail("less than nothing in an array");
        for (long long i = 0; i < size; ++i) read_one(depth + 1);
        return;
      }
      default:
        fail("an answer is no RESP");
    }
  }

  std::string_view rest_;
};

// Commands in a stream, until it is none of ours.
inline std::size_t count_commands(std::span<const std::byte> stream) {
  std::vector<std::byte> carry(frontend::resp::kMaxCommandBytes);
  frontend::resp::CommandReader reader(carry);
  frontend::resp::Command command;
  reader.feed(stream);
  std::size_t count = 0;
  while (reader.next(command)) ++count;
  return count;
}

// Commands of every kind, which meet on few keys.
inline const std::vector<std::string>& resp_sessions() {
  static const std::vector<std::string> all = {
      "PING\r\nCL.THROTTLE k 4 1 60\r\nCL.THROTTLE k 4 1 60 0\r\nPAIL.TAKE p k 2\r\n",
      "HELLO 3 SETNAME x\r\nPAIL.PEEK w k\r\nPAIL.TAKEALL p k 1 w j 2\r\nINFO server\r\n",
      "PAIL.ACQUIRE c k\r\nPAIL.RELEASE c k 1\r\nPAIL.TAKE p k 1 GRANT\r\nPAIL.RESET p k\r\n",
      "PAIL.TAKE w k 3 GRANT\r\nPAIL.SETTLE w k 1 1\r\nPAIL.RENEW c k 7\r\nEVALSHA x 0\r\n",
      "INCR k\r\nEXPIRE k 60 NX\r\nINCRBY k 41\r\nDECRBY k 50\r\nPTTL k\r\nGET k\r\nDEL k j\r\n",
      "SET k 7 EX 60 NX\r\nINCREX k BYINT 3 UBOUND 5 EX 60 ENX\r\nEXISTS k k\r\nTTL k\r\n",
      "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n4\r\n$1\r\n1\r\n$2\r\n60\r\nQUIT\r\n",
      "*-1\r\n*0\r\n*2\r\n$3\r\nDEL\r\n$3\r\n\xFF\r\n\r\n\r\nMULTI\r\n",
      "COMMAND INFO get\r\nCONFIG GET *\r\nCLIENT LIST\r\nSELECT 0\r\nECHO \"a b\"\r\nRESET\r\n",
      "PING\r\nAUTH a-token-of-16-ch\r\nPING 'x y'\r\nHELLO 2 AUTH u a-token-of-16-ch\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
  };
  return all;
}

// The first byte says how the rest is cut, the second what server it meets.
inline void check_resp_input(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const std::size_t size = std::size_t{std::to_integer<unsigned char>(input[0])} + 1;
  const auto flags = std::to_integer<unsigned>(input[1]);
  const RespSetting setting{.wants_token = (flags & 1) != 0, .has_memory = (flags & 2) == 0};
  const auto stream = input.subspan(2);

  std::string in_pieces;
  {
    RespServer server(setting);
    bool is_open = true;
    for (std::size_t at = 0; at < stream.size() && is_open; at += size) {
      is_open = server.hear(stream.subspan(at, std::min(size, stream.size() - at)));
    }
    in_pieces = server.said();
  }
  RespServer server(setting);
  const bool is_open = server.hear(stream);
  const std::string& at_once = server.said();

  static_cast<void>(RespAnswers(in_pieces).count());
  const std::size_t answers = RespAnswers(at_once).count();
  const std::size_t commands = count_commands(stream);
  // Whatever closes says so in one answer of its own, or is the command's.
  if (is_open ? answers != commands : answers > commands + 1) {
    throw std::runtime_error("another number of answers than of commands");
  }
  // Long answers are counted by the chunk, and so depend on it.
  const bool is_long = at_once.find("-OVERLOADED too many such") != std::string::npos ||
                       at_once.find("more is asked than a client") != std::string::npos;
  if (!is_long && in_pieces != at_once) {
    throw std::runtime_error("the cut of the stream changes the answers");
  }
}

}  // namespace pail::test
