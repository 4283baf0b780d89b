// The requests of a run as bytes, and how Pail's replies are checked. No I/O in it.
//
// Nearly always all requests of a run have the same size and differ in tag and key only, so a batch
// is laid out once a connection and then only these fields are written; where single requests and
// layers are mixed, each is written whole. Tags of a connection count up from 1,
// so a reply out of order, lost, doubled or meant for another connection cannot pass for the
// expected one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/key_source.hpp"
#include "bench/load_options.hpp"
#include "bench/op_mix.hpp"
#include "bench/reply_reader.hpp"
#include "protocol/codec.hpp"
#include "protocol/wire.hpp"

namespace pail::bench {

// The request of a run, with the digits of the keys to be filled in, and tag and operation where
// the target speaks Pail's own protocol.
class FrameTemplate {
 public:
  explicit FrameTemplate(const LoadOptions& options);

  // Of the longest request of the run.
  [[nodiscard]] std::size_t size_bytes() const noexcept {
    return std::max(single_.bytes.size(), layered_.bytes.size());
  }
  // What every request begins as, where all have the same size.
  [[nodiscard]] protocol::Bytes bytes() const noexcept { return uniform().bytes; }

  // Makes `frame`, a copy of bytes() unless sizes are mixed, the next request. Returns its size.
  std::size_t fill(std::byte* frame, std::uint32_t tag, std::uint32_t key) const noexcept {
    if (are_sizes_mixed_) [[unlikely]]
      return write(frame, tag, key);
    const Layout& layout = uniform();
    write_keys(layout, frame, key);
    if (is_native_) [[likely]] {
      protocol::wire::store<std::uint32_t>(frame + protocol::request_at::kTag, tag);
      if (is_mixed_) frame[protocol::request_at::kOp] = static_cast<std::byte>(mix_.op_of(tag));
    }
    return layout.bytes.size();
  }

 private:
  struct Layout {
    std::vector<std::byte> bytes;
    std::vector<std::size_t> key_ends;  // a request may name the key more than once
  };
  [[nodiscard]] const Layout& uniform() const noexcept {
    return single_.bytes.empty() ? layered_ : single_;
  }
  void write_keys(const Layout& layout, std::byte* frame, std::uint32_t key) const noexcept {
    for (const std::size_t end : layout.key_ends) write_key_digits(key, frame + end, digits_);
  }
  std::size_t write(std::byte* frame, std::uint32_t tag, std::uint32_t key) const noexcept;

  Layout single_;   // TAKE, PEEK, LEASE; what is asked of others
  Layout layered_;  // TAKE_ALL
  std::size_t digits_;
  bool is_native_;
  bool is_mixed_;
  bool are_sizes_mixed_ = false;
  OpMix mix_;
};

// Writes one request with a key and a cost of its own, as a trace has them: only for targets that
// speak Pail's protocol. Returns its size, at most protocol::kMaxRequestBytes.
[[nodiscard]] std::size_t write_request(const LoadOptions& options, protocol::Op op,
                                        std::uint32_t tag, std::string_view key, std::uint32_t cost,
                                        protocol::Buffer out) noexcept;

[[nodiscard]] constexpr std::uint32_t next_tag(std::uint32_t tag) noexcept {
  return tag + 1 == 0 ? 1 : tag + 1;  // 0 is the server's own
}

// Checks the replies of one connection that speaks Pail's protocol.
class ReplyChecker final : public ReplyReader {
 public:
  // `tag` is that of the first reply to come; a TAKE_ALL has `layers`.
  explicit ReplyChecker(std::uint32_t tag, const OpMix& mix = {}, std::uint32_t layers = 1) noexcept
      : tag_(tag), mix_(mix), layers_(layers) {}

  [[nodiscard]] std::int64_t check(protocol::Bytes chunk, std::uint32_t expected,
                                   StatusCounts& counts,
                                   std::vector<Outcome>* outcomes = nullptr) noexcept override;
  [[nodiscard]] std::string fault() const override;

 private:
  // Moves bytes from `chunk` to the frame that an earlier chunk began; true once that is whole, or
  // its size impossible, which check_one() finds.
  [[nodiscard]] bool complete_carried(protocol::Bytes& chunk) noexcept;
  // Counts the frame at `at`, of which at least a header is there; false if it is wrong.
  [[nodiscard]] bool check_one(const std::byte* at, StatusCounts& counts,
                               std::vector<Outcome>* outcomes) noexcept;
  [[nodiscard]] bool fail(const char* text) noexcept;

  static constexpr std::size_t kMaxReplyBytes =
      protocol::kReplyHeaderBytes + protocol::kMaxErrorTextBytes;

  std::uint32_t tag_;
  OpMix mix_;
  std::uint32_t layers_;
  std::size_t carried_ = 0;
  std::array<std::byte, kMaxReplyBytes> carry_{};
  const char* fault_ = nullptr;
  std::uint64_t wrong_prefix_ = 0;
};

}  // namespace pail::bench
