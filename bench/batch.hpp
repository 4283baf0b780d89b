// The frames of a run: how a batch of TAKEs is written and how its replies are checked. No I/O in
// it.
//
// All requests of a run have the same size and differ in tag and key only, so a batch is laid out
// once a connection and then only these two fields are written. Tags of a connection count up from
// 1, so a reply out of order, lost, doubled or meant for another connection cannot pass for the
// expected one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/key_source.hpp"
#include "bench/load_options.hpp"
#include "protocol/codec.hpp"
#include "protocol/wire.hpp"

namespace pail::bench {

// The TAKE frame of a run, with tag and digits of the key to be filled in.
class FrameTemplate {
 public:
  explicit FrameTemplate(const LoadOptions& options);

  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_.size(); }
  [[nodiscard]] protocol::Bytes bytes() const noexcept { return bytes_; }

  // Makes `frame`, a copy of bytes(), the next request.
  void fill(std::byte* frame, std::uint32_t tag, std::uint32_t key) const noexcept {
    protocol::wire::store<std::uint32_t>(frame + kTagOffset, tag);
    write_key_digits(key, frame + bytes_.size(), digits_);
  }

 private:
  static constexpr std::size_t kTagOffset = 4;
  std::vector<std::byte> bytes_;
  std::size_t digits_;
};

[[nodiscard]] constexpr std::uint32_t next_tag(std::uint32_t tag) noexcept {
  return tag + 1 == 0 ? 1 : tag + 1;  // 0 is the server's own
}

struct StatusCounts {
  std::array<std::uint64_t, protocol::kStatusCount> of{};

  [[nodiscard]] std::uint64_t get(protocol::Status status) const noexcept {
    return of[static_cast<std::size_t>(status)];
  }
  [[nodiscard]] std::uint64_t answered() const noexcept;
  [[nodiscard]] std::uint64_t admitted() const noexcept { return get(protocol::Status::ok); }
  // Decisions against the caller: denied, shed, never.
  [[nodiscard]] std::uint64_t refused() const noexcept;
  // Everything else: the request was not decided.
  [[nodiscard]] std::uint64_t errors() const noexcept {
    return answered() - admitted() - refused();
  }
  void add(const StatusCounts& other) noexcept;
};

// Checks the replies of one connection, in whatever chunks they arrive.
class ReplyChecker {
 public:
  // `tag` is that of the first reply to come.
  explicit ReplyChecker(std::uint32_t tag) noexcept : tag_(tag) {}

  // Checks all of `chunk` and counts its replies by status. At most `expected` replies may come.
  // The number of whole replies; -1 if one is wrong: fault() says how.
  [[nodiscard]] std::int64_t check(protocol::Bytes chunk, std::uint32_t expected,
                                   StatusCounts& counts) noexcept;

  [[nodiscard]] std::string fault() const;

 private:
  // Moves bytes from `chunk` to the frame that an earlier chunk began; true once that is whole, or
  // its size impossible, which check_one() finds.
  [[nodiscard]] bool complete_carried(protocol::Bytes& chunk) noexcept;
  // Counts the frame at `at`, of which at least a header is there; false if it is wrong.
  [[nodiscard]] bool check_one(const std::byte* at, StatusCounts& counts) noexcept;
  [[nodiscard]] bool fail(const char* text) noexcept;

  static constexpr std::size_t kMaxReplyBytes =
      protocol::kReplyHeaderBytes + protocol::kMaxErrorTextBytes;

  std::uint32_t tag_;
  std::size_t carried_ = 0;
  std::array<std::byte, kMaxReplyBytes> carry_{};
  const char* fault_ = nullptr;
  std::uint64_t wrong_prefix_ = 0;
};

}  // namespace pail::bench
