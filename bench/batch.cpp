#include "bench/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

namespace pail::bench {
namespace {

using protocol::kReplyHeaderBytes;
using protocol::Op;
using protocol::Status;

// A reply's first 8 bytes: u16 size, u8 op, u8 status, u32 tag.
constexpr unsigned kOpShift = 16, kStatusShift = 24, kTagShift = 32;

constexpr std::uint64_t expected_prefix(std::uint32_t tag) noexcept {
  return kReplyHeaderBytes | (static_cast<std::uint64_t>(Op::take) << kOpShift) |
         (std::uint64_t{tag} << kTagShift);
}

}  // namespace

FrameTemplate::FrameTemplate(const LoadOptions& options)
    : digits_(digits_in(options.key_size_bytes)) {
  const std::string key = key_filler(options.key_size_bytes) + std::string(digits_, '0');
  protocol::Request request;
  request.op = Op::take;
  request.tag = 1;
  request.cost = options.cost;
  request.key = std::as_bytes(std::span(key));
  if (options.policy.empty()) {
    request.has_inline_limit = true;
    request.inline_limit = options.limit;
  } else {
    request.policy = protocol::policy_id(options.policy);
  }
  bytes_.resize(protocol::kMaxRequestBytes);
  bytes_.resize(protocol::encode(request, bytes_));
}

std::uint64_t StatusCounts::answered() const noexcept {
  return std::accumulate(of.begin(), of.end(), std::uint64_t{0});
}

std::uint64_t StatusCounts::refused() const noexcept {
  return get(Status::denied) + get(Status::shed) + get(Status::never);
}

void StatusCounts::add(const StatusCounts& other) noexcept {
  for (std::size_t i = 0; i < of.size(); ++i) of[i] += other.of[i];
}

std::int64_t ReplyChecker::check(protocol::Bytes chunk, std::uint32_t expected,
                                 StatusCounts& counts) noexcept {
  std::uint32_t done = 0;
  if (carried_ != 0) {
    if (!complete_carried(chunk)) return 0;
    if (!check_one(carry_.data(), counts)) return -1;
    carried_ = 0;
    ++done;
  }

  const std::byte* at = chunk.data();
  const std::byte* const end = at + chunk.size();
  std::uint64_t admitted = 0;
  while (static_cast<std::size_t>(end - at) >= kReplyHeaderBytes && done < expected) {
    if (protocol::wire::load<std::uint64_t>(at) == expected_prefix(tag_)) [[likely]] {
      ++admitted;
      tag_ = next_tag(tag_);
      at += kReplyHeaderBytes;
    } else {
      const std::size_t size = protocol::wire::load<std::uint16_t>(at);
      if (size > static_cast<std::size_t>(end - at) && size <= carry_.size()) break;
      if (!check_one(at, counts)) return -1;
      at += size;
    }
    ++done;
  }
  counts.of[static_cast<std::size_t>(Status::ok)] += admitted;

  const auto rest = static_cast<std::size_t>(end - at);
  if (rest != 0 && (done == expected || rest > carry_.size())) {
    fault_ = "came although nothing was asked";
    return -1;
  }
  if (rest != 0) std::memcpy(carry_.data(), at, rest);
  carried_ = rest;
  return done;
}

bool ReplyChecker::complete_carried(protocol::Bytes& chunk) noexcept {
  while (true) {
    // First the prefix, which says how much there is to come.
    const bool has_prefix = carried_ >= protocol::kFramePrefixBytes;
    const std::size_t wanted = has_prefix ? protocol::wire::load<std::uint16_t>(carry_.data())
                                          : protocol::kFramePrefixBytes;
    if (has_prefix && (wanted < kReplyHeaderBytes || wanted > kMaxReplyBytes)) return true;
    const std::size_t taken = std::min(wanted - carried_, chunk.size());
    if (taken != 0) std::memcpy(carry_.data() + carried_, chunk.data(), taken);
    carried_ += taken;
    chunk = chunk.subspan(taken);
    if (carried_ < wanted) return false;
    if (has_prefix) return true;
  }
}

bool ReplyChecker::check_one(const std::byte* at, StatusCounts& counts) noexcept {
  wrong_prefix_ = protocol::wire::load<std::uint64_t>(at);
  const std::size_t size = wrong_prefix_ & 0xFFFF;
  if (size < kReplyHeaderBytes || size > kMaxReplyBytes) return fail("has an impossible size");
  const auto status = static_cast<std::uint8_t>(wrong_prefix_ >> kStatusShift);
  if (static_cast<std::uint8_t>(wrong_prefix_ >> kOpShift) != static_cast<std::uint8_t>(Op::take)) {
    return fail("is not one to a TAKE");
  }
  if (static_cast<std::uint32_t>(wrong_prefix_ >> kTagShift) != tag_) {
    return fail("is out of order: it carries another request's tag");
  }
  if (status >= protocol::kStatusCount) return fail("has an unknown status");
  if (protocol::is_decision(static_cast<Status>(status)) && size != kReplyHeaderBytes) {
    return fail("is a decision with a body");
  }
  ++counts.of[status];
  tag_ = next_tag(tag_);
  return true;
}

bool ReplyChecker::fail(const char* text) noexcept {
  fault_ = text;
  return false;
}

std::string ReplyChecker::fault() const {
  return fmt::format("a reply {} (expected tag {}; got size {}, op 0x{:02x}, status {}, tag {})",
                     fault_ == nullptr ? "is fine" : fault_, tag_, wrong_prefix_ & 0xFFFF,
                     (wrong_prefix_ >> kOpShift) & 0xFF, (wrong_prefix_ >> kStatusShift) & 0xFF,
                     wrong_prefix_ >> kTagShift);
}

}  // namespace pail::bench
