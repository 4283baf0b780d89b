// The native protocol's front end: received bytes in, reply bytes out, the engine asked in between.
//
// It knows no socket and no clock, so the whole request path runs, and is fuzzed, without either.
// One belongs to each shard and is used by its thread; what a connection must remember between two
// chunks is its NativeSession.
//
// Frames are decoded in place in groups of up to 64, decided as one batch, which lets the engine
// fetch their keys from memory together, and answered in the order in which they came.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "protocol/frame_reader.hpp"
#include "server/engine/engine.hpp"
#include "server/frontend/counters.hpp"
#include "server/frontend/front_end.hpp"
#include "server/frontend/grant_ledger.hpp"
#include "server/frontend/reply_queue.hpp"

namespace pail::frontend {

class NativeSession {
 public:
  NativeSession() = default;  // Reads nothing: assign a real one before use.
  // `carry` keeps the beginning of a frame that is split over two chunks; it outlives the session.
  // `is_local`: the peer is on this machine.
  explicit NativeSession(protocol::Buffer carry, bool is_local = true) noexcept
      : reader_(carry, protocol::FrameReader::Phase::hello), is_local_(is_local) {}

  [[nodiscard]] bool is_greeted() const noexcept { return is_greeted_; }
  // In the middle of a frame.
  [[nodiscard]] bool is_mid_frame() const noexcept { return reader_.pending_bytes() > 0; }

 private:
  friend class Native;
  protocol::FrameReader reader_;
  bool is_greeted_ = false;
  bool is_local_ = true;
  Permission permission_;  // once greeted
  GrantOwner grants_;      // Native::forget() before the session goes
  GrantOwner leases_;      // likewise
};

class Native {
 public:
  static constexpr std::size_t kGroup = 64;
  // STATS answered for one chunk: its reply is a hundred times the request's size.
  static constexpr std::size_t kStatsPerChunk = 4;
  static_assert(std::has_single_bit(kGroup) &&
                count_of_batch(kGroup) == NativeCount::batches_of_64);

  Native(engine::Worker& worker, ReplyPool& pool, NativeCounters& counters,
         const Identity& identity, const Services& services = {})
      : worker_(worker),
        pool_(pool),
        counters_(counters),
        identity_(identity),
        services_(services) {}

  // Interprets `chunk`, the next bytes of the session's stream. All replies go to `replies`, those
  // to frames before a malformed one included.
  [[nodiscard]] Outcome receive(NativeSession& session, protocol::Bytes chunk, const Now& now,
                                ReplyQueue& replies, Service service = Service::normal) noexcept;

  // The tokens have changed: what the session may do now. Outcome::close: nothing any more, and the
  // peer is told so.
  [[nodiscard]] Outcome renew(NativeSession& session, ReplyQueue& replies) noexcept;

  // The connection is gone: its grants are nobody's now, and what they charged stays charged.
  void forget(NativeSession& session) noexcept;

  // The server is about to stop: asks the peer to send no more. Lost where there is no room.
  void say_goodbye(ReplyQueue& replies) noexcept;

  // After Outcome::close.
  [[nodiscard]] const Refusal& refusal() const noexcept { return refusal_; }

 private:
  // The frames of one batch. What the engine need not be asked has its status already.
  struct Group {
    struct Frame {
      std::uint32_t tag;
      protocol::Op op;
      bool is_decided;  // by the engine; else by `status`
      protocol::Status status;
      std::string_view text;
    };
    std::array<Frame, kGroup> frames;
    std::array<engine::Request, kGroup> requests;
    std::array<engine::Decision, kGroup> decisions;
    std::size_t size = 0;
    std::size_t request_count = 0;
    bool has_text = false;
    // What stood behind the group and is not for it: answered after it.
    std::optional<protocol::Request> single;
  };

  [[nodiscard]] Outcome greet(NativeSession& session, const Now& now, ReplyQueue& replies) noexcept;
  // False where a frame was malformed: it is the last of the group.
  [[nodiscard]] bool fill_group(NativeSession& session, const Now& now) noexcept;
  [[nodiscard]] Permission permission_for(const protocol::Hello& hello,
                                          bool is_local) const noexcept;
  enum class Filling : std::uint8_t { goes_on, is_full, is_malformed };
  [[nodiscard]] Filling fill_slowly(NativeSession& session, protocol::Bytes frame,
                                    const Now& now) noexcept;
  void add(const protocol::Request& request, const Now& now) noexcept;
  void add_refusal(const protocol::DecodeError& error) noexcept;
  // False: there is no room.
  [[nodiscard]] bool answer_group(ReplyQueue& replies) noexcept;
  [[nodiscard]] bool answer_plainly(ReplyQueue& replies) noexcept;
  [[nodiscard]] bool answer_with_texts(ReplyQueue& replies) noexcept;
  [[nodiscard]] bool answer_single(NativeSession& session, const protocol::Request& request,
                                   const Now& now, ReplyQueue& replies) noexcept;
  void decide_single(NativeSession& session, const protocol::Request& request, const Now& now,
                     protocol::Buffer body, protocol::Reply& reply) noexcept;
  void lease(NativeSession& session, const protocol::Request& request, const Now& now,
             protocol::Buffer body, engine::Decision& decision, protocol::Reply& reply) noexcept;
  void take_all(const protocol::Request& request, const Now& now, protocol::Buffer body,
                engine::Decision& decision, protocol::Reply& reply) noexcept;
  // Why a request is not even decided; ok: it is. What would be answered too late is not, so that
  // it is not charged either. A server that sheds load still hears what gives back.
  [[nodiscard]] protocol::Status unheard(const protocol::Request& request,
                                         const Now& now) const noexcept {
    using protocol::Status;
    if (request.expires_us != 0) {
      // The moment of leaving alone would not do: far enough behind it the past is the future.
      const auto now_us = static_cast<std::uint32_t>(now.us);
      if (protocol::has_expired(request.expires_us, now_us)) return Status::expired;
      if (protocol::has_expired(request.expires_us, now_us + now.turn_us)) {
        return Status::overloaded;
      }
    }
    if (service_ != Service::shedding) [[likely]]
      return Status::ok;
    const bool gives_back = request.op == protocol::Op::reset || protocol::names_grant(request.op);
    return gives_back ? Status::ok : Status::overloaded;
  }
  static void tell(const engine::Decision& decision, protocol::Reply& reply) noexcept;
  [[nodiscard]] bool answer_policy(const NativeSession& session, const protocol::Request& request,
                                   ReplyQueue& replies) noexcept;
  [[nodiscard]] bool answer_stats(const protocol::Request& request, ReplyQueue& replies) noexcept;
  [[nodiscard]] Outcome refuse(const protocol::DecodeError& error, ReplyQueue& replies) noexcept;

  engine::Worker& worker_;
  ReplyPool& pool_;
  NativeCounters& counters_;
  const Identity identity_;
  const Services services_;
  std::size_t stats_left_ = 0;  // of kStatsPerChunk
  Refusal refusal_;
  Group group_;
  GrantLedger grants_{services_.most_grants};
  GrantLedger leases_{services_.most_grants};
  Service service_ = Service::normal;  // of the chunk that is being received
};

}  // namespace pail::frontend
