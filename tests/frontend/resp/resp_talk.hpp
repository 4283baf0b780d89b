// A RESP session without a socket: text in, text out, on an engine under a clock of the test's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/frontend/resp/resp.hpp"
#include "tests/engine/engine_fixture.hpp"

namespace pail::test {

// As a client library sends it.
[[nodiscard]] inline std::string resp_array(const std::vector<std::string>& words) {
  std::string text = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return text;
}

class RespTalk {
 public:
  explicit RespTalk(engine::Options options = {}, frontend::Services services = {})
      : engine_(options),
        worker_(engine_.enroll()),
        memory_(4 * 1024 * 1024),
        pool_(memory_),
        resp_(*worker_, pool_, counters_, services),
        carry_(frontend::resp::kMaxCommandBytes),
        session_(carry_) {
    now_.ticks = kStart;
    resp_.welcome(session_);
  }
  ~RespTalk() {
    resp_.forget(session_);
    replies_.clear(pool_);
  }
  RespTalk(const RespTalk&) = delete;
  RespTalk& operator=(const RespTalk&) = delete;

  // One chunk; all that is answered to it.
  std::string say(std::string_view chunk, frontend::Service service = frontend::Service::normal) {
    outcome_ = resp_.receive(session_, std::as_bytes(std::span(chunk)), now_, replies_, service);
    return heard();
  }
  // What has been answered by now.
  std::string heard() {
    std::string text;
    for (auto bytes = replies_.front(); !bytes.empty(); bytes = replies_.front()) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      replies_.sent(bytes.size(), pool_);
    }
    return text;
  }
  // One command, in the form of a client library.
  std::string ask(const std::vector<std::string>& words) { return say(resp_array(words)); }

  [[nodiscard]] frontend::Outcome renew() { return outcome_ = resp_.renew(session_, replies_); }
  [[nodiscard]] frontend::Outcome outcome() const { return outcome_; }
  [[nodiscard]] bool is_open() const { return outcome_ == frontend::Outcome::keep; }
  [[nodiscard]] const frontend::Refusal& refusal() const { return resp_.refusal(); }
  [[nodiscard]] const frontend::RespSession& session() const { return session_; }
  [[nodiscard]] std::uint64_t count(frontend::RespCount name) const { return counters_.read(name); }
  void pass(engine::Ticks ticks) {
    now_.ticks += ticks;
    now_.us += ticks / engine::kTicksPerNs / 1000;
  }

 private:
  engine::Engine engine_;
  std::unique_ptr<engine::Worker> worker_;
  std::vector<std::byte> memory_;
  frontend::ReplyPool pool_;
  frontend::RespCounters counters_;
  frontend::Resp resp_;
  std::vector<std::byte> carry_;
  frontend::RespSession session_;
  frontend::ReplyQueue replies_;
  frontend::Now now_;
  frontend::Outcome outcome_ = frontend::Outcome::keep;
};

}  // namespace pail::test
