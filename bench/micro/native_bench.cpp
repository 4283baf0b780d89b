// What a frame costs the native front end without a socket: decode, decide, encode, for 50 sessions
// that each send a batch of takes a turn. Everything of the server that the kernel is not.
// Usage: native-bench KEYS SECONDS [PIPELINE] [policy|inline]
// Prints millions of frames a second and ns a frame; the making of the keys included (about 2 ns).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string_view>
#include <vector>

#include "server/frontend/native.hpp"

namespace pail::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSessions = 50;
constexpr std::size_t kKeyBytes = 16;
constexpr frontend::Now kNow{engine::ticks_from_ns(1'000'000'000), 1'000'000};

struct Load {
  std::uint64_t keys = 1;
  double seconds = 1;
  std::size_t pipeline = 64;
  bool has_inline_limit = false;
};

// One peer: its batch of frames, rewritten in place for every turn, and the server's side of it.
class Peer {
 public:
  Peer(const Load& load, frontend::Native& native, frontend::ReplyPool& pool)
      : carry_(protocol::kMaxFrameBytes), session_(carry_), native_(native), pool_(pool) {
    std::byte hello[protocol::kMaxHelloBytes];
    protocol::Hello greeting;
    greeting.tag = 1;
    receive(protocol::Bytes(hello, protocol::encode(greeting, hello)));
    protocol::Request request;
    request.op = protocol::Op::take;
    request.tag = 1;
    request.cost = 1;
    request.has_inline_limit = load.has_inline_limit;
    // One tick a token and as deep as can be, so that everything is admitted.
    request.inline_limit = {1, 16, ~std::uint32_t{0}};
    if (!load.has_inline_limit) request.policy = protocol::policy_id("bench");
    const std::byte key[kKeyBytes]{};
    request.key = key;
    for (std::size_t i = 0; i < load.pipeline; ++i) {
      const std::size_t at = batch_.size();
      batch_.resize(at + protocol::kMaxRequestBytes);
      frame_bytes_ = protocol::encode(request, std::span(batch_).subspan(at));
      batch_.resize(at + frame_bytes_);
    }
  }
  ~Peer() { replies_.clear(pool_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  template <class NextKey>
  void take(NextKey next_key) {
    for (std::size_t end = frame_bytes_; end <= batch_.size(); end += frame_bytes_) {
      const std::uint64_t key = next_key();
      std::memcpy(batch_.data() + end - kKeyBytes, &key, sizeof key);
    }
    receive(batch_);
  }

 private:
  void receive(protocol::Bytes bytes) {
    if (native_.receive(session_, bytes, kNow, replies_) != frontend::Outcome::keep) std::abort();
    while (!replies_.front().empty()) replies_.sent(replies_.front().size(), pool_);
  }

  std::vector<std::byte> carry_;
  frontend::NativeSession session_;
  frontend::ReplyQueue replies_;
  std::vector<std::byte> batch_;
  std::size_t frame_bytes_ = 0;
  frontend::Native& native_;
  frontend::ReplyPool& pool_;
};

void measure(const Load& load) {
  engine::Options options;
  options.memory_limit_bytes = std::size_t{16} << 30;
  options.policies = {{"bench", protocol::policy_id("bench"), {1, 16, ~std::uint32_t{0}}}};
  engine::Engine engine(options);
  const auto worker = engine.enroll();
  std::vector<std::byte> memory(64 * frontend::ReplyBlock::kSizeBytes);
  frontend::ReplyPool pool(memory);
  frontend::NativeCounters counters;
  frontend::Native native(*worker, pool, counters, frontend::Identity{});
  std::deque<Peer> peers;
  for (std::size_t i = 0; i < kSessions; ++i) peers.emplace_back(load, native, pool);

  std::uint64_t next = 0;
  while (next < load.keys) {
    for (Peer& peer : peers) peer.take([&] { return next++; });
    worker->end_turn(kNow.ticks);
  }

  std::uint64_t x = 1;
  std::uint64_t frames = 0;
  double seconds = 0;
  const auto start = Clock::now();
  while (seconds < load.seconds) {
    for (Peer& peer : peers) {
      peer.take([&] {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        return ((x >> 32) * load.keys) >> 32;
      });
    }
    worker->end_turn(kNow.ticks);
    frames += kSessions * load.pipeline;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  }
  std::printf("%llu keys, pipeline %zu: %.1f M frames/s, %.1f ns each\n",
              static_cast<unsigned long long>(load.keys), load.pipeline,
              static_cast<double>(frames) / seconds / 1e6,
              1e9 * seconds / static_cast<double>(frames));
}

}  // namespace
}  // namespace pail::bench

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("usage: native-bench KEYS SECONDS [PIPELINE] [policy|inline]\n", stderr);
    return 2;
  }
  pail::bench::Load load;
  load.keys = std::strtoull(argv[1], nullptr, 0);
  load.seconds = std::strtod(argv[2], nullptr);
  if (argc > 3) load.pipeline = std::strtoull(argv[3], nullptr, 0);
  load.has_inline_limit = argc > 4 && std::string_view(argv[4]) == "inline";
  pail::bench::measure(load);
}
