#include "bench/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>
#include <string_view>

namespace pail::bench {
namespace {

using protocol::kReplyHeaderBytes;
using protocol::Op;
using protocol::Status;

// A reply's first 8 bytes: u16 size, u8 op, u8 status, u32 tag.
constexpr unsigned kOpShift = 16, kStatusShift = 24, kTagShift = 32;

constexpr std::uint64_t expected_prefix(Op op, std::uint32_t tag) noexcept {
  return kReplyHeaderBytes | (static_cast<std::uint64_t>(op) << kOpShift) |
         (std::uint64_t{tag} << kTagShift);
}

// Text with the key as a mark: the template of a request in a text protocol.
struct TextRequest {
  std::string text;
  std::size_t key_end = 0;
  std::size_t second_key_end = 0;
};

std::string resp(std::initializer_list<std::string_view> words) {
  std::string text = fmt::format("*{}\r\n", words.size());
  for (const std::string_view word : words) {
    text += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  return text;
}

TextRequest text_request(const LoadOptions& options, std::string_view key) {
  const auto number = [](std::uint64_t value) { return fmt::format("{}", value); };
  const std::string period_ms =
      number(std::max<std::uint64_t>(options.limit.period_ns / 1'000'000, 1));
  const std::string period_s =
      number(std::max<std::uint64_t>(options.limit.period_ns / 1'000'000'000, 1));
  const std::string count = number(options.limit.count);
  const std::string cost = number(options.cost);
  TextRequest request;
  if (options.target.kind == TargetKind::memcached) {
    request.text = fmt::format("incr {} {}\r\n", key, cost);
  } else {
    switch (options.target.method) {
      case RedisMethod::lua:
        request.text = resp({"EVALSHA", options.script_sha, "1", key, number(options.limit.burst),
                             count, period_ms, cost});
        break;
      case RedisMethod::incr:
        request.text = resp({"INCRBY", key, cost});
        request.second_key_end = request.text.size();
        request.text += resp({"EXPIRE", key, period_s, "NX"});
        break;
      case RedisMethod::throttle:
        request.text =
            resp({"CL.THROTTLE", key, number(options.limit.burst - 1), count, period_s, cost});
        break;
    }
  }
  const std::size_t second_from = request.second_key_end;
  request.key_end = request.text.find(key) + key.size();
  if (second_from != 0) request.second_key_end = request.text.find(key, second_from) + key.size();
  return request;
}

}  // namespace

FrameTemplate::FrameTemplate(const LoadOptions& options)
    : digits_(digits_in(options.key_size_bytes)),
      is_native_(options.target.is_native()),
      is_mixed_(!options.mix.is_takes_only()),
      mix_(options.mix) {
  const std::string key = key_filler(options.key_size_bytes) + std::string(digits_, '0');
  if (!is_native_) {
    const TextRequest request = text_request(options, key);
    const auto bytes = protocol::as_body(request.text);
    single_.bytes.assign(bytes.begin(), bytes.end());
    single_.key_ends.push_back(request.key_end);
    if (request.second_key_end != 0) single_.key_ends.push_back(request.second_key_end);
    return;
  }
  const std::uint32_t layered = options.mix.percent_of(Op::take_all);
  if (layered != OpMix::kSlots) {
    single_.bytes.resize(protocol::kMaxRequestBytes);
    single_.bytes.resize(write_request(options, Op::take, 1, key, options.cost, single_.bytes));
    single_.key_ends.push_back(single_.bytes.size());
  }
  if (layered != 0) {
    layered_.bytes.resize(protocol::kMaxFrameBytes);
    layered_.bytes.resize(
        write_request(options, Op::take_all, 1, key, options.cost, layered_.bytes));
    const std::size_t layer_bytes = protocol::kLayerHeaderBytes + key.size();
    for (std::size_t i = options.layers.size() + 1; i-- > 0;) {
      layered_.key_ends.push_back(layered_.bytes.size() - i * layer_bytes);
    }
  }
  are_sizes_mixed_ = !single_.bytes.empty() && !layered_.bytes.empty();
}

std::size_t FrameTemplate::write(std::byte* frame, std::uint32_t tag,
                                 std::uint32_t key) const noexcept {
  const Op op = mix_.op_of(tag);
  const Layout& layout = op == Op::take_all ? layered_ : single_;
  std::memcpy(frame, layout.bytes.data(), layout.bytes.size());
  write_keys(layout, frame, key);
  protocol::wire::store<std::uint32_t>(frame + protocol::request_at::kTag, tag);
  frame[protocol::request_at::kOp] = static_cast<std::byte>(op);
  return layout.bytes.size();
}

std::size_t write_request(const LoadOptions& options, protocol::Op op, std::uint32_t tag,
                          std::string_view key, std::uint32_t cost, protocol::Buffer out) noexcept {
  protocol::Request request;
  request.op = op;
  request.tag = tag;
  request.cost = cost;
  request.key = protocol::as_body(key);
  if (op == Op::take_all) {
    std::array<protocol::Layer, protocol::kMaxLayers> layers;
    std::size_t count = 0;
    layers[count++] = {protocol::policy_id(options.policy), cost, request.key};
    for (const std::string& policy : options.layers) {
      layers[count++] = {protocol::policy_id(policy), cost, request.key};
    }
    std::array<std::byte, protocol::kMaxFrameBytes> bytes;
    const std::size_t size = protocol::encode(std::span(layers).first(count), bytes);
    request.cost = static_cast<std::uint32_t>(count);
    request.key = std::span(bytes).first(size);
    return protocol::encode(request, out);
  }
  if (options.policy.empty()) {
    request.has_inline_limit = true;
    request.inline_limit = options.limit;
  } else {
    request.policy = protocol::policy_id(options.policy);
  }
  return protocol::encode(request, out);
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
                                 StatusCounts& counts, std::vector<Outcome>* outcomes) noexcept {
  std::uint32_t done = 0;
  if (carried_ != 0) {
    if (!complete_carried(chunk)) return 0;
    if (!check_one(carry_.data(), counts, outcomes)) return -1;
    carried_ = 0;
    ++done;
  }

  const std::byte* at = chunk.data();
  const std::byte* const end = at + chunk.size();
  std::uint64_t admitted = 0;
  // The short cut: a plain `ok` to a take. Everything else is looked at field by field.
  const bool has_short_cut = mix_.is_takes_only() && outcomes == nullptr;
  while (static_cast<std::size_t>(end - at) >= kReplyHeaderBytes && done < expected) {
    if (has_short_cut && protocol::wire::load<std::uint64_t>(at) == expected_prefix(Op::take, tag_))
        [[likely]] {
      ++admitted;
      tag_ = next_tag(tag_);
      at += kReplyHeaderBytes;
    } else {
      const std::size_t size = protocol::wire::load<std::uint16_t>(at);
      if (size > static_cast<std::size_t>(end - at) && size <= carry_.size()) break;
      if (!check_one(at, counts, outcomes)) return -1;
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

bool ReplyChecker::check_one(const std::byte* at, StatusCounts& counts,
                             std::vector<Outcome>* outcomes) noexcept {
  wrong_prefix_ = protocol::wire::load<std::uint64_t>(at);
  const std::size_t size = wrong_prefix_ & 0xFFFF;
  if (size < kReplyHeaderBytes || size > kMaxReplyBytes) return fail("has an impossible size");
  const auto status = static_cast<std::uint8_t>(wrong_prefix_ >> kStatusShift);
  const Op op = mix_.op_of(tag_);
  if (static_cast<std::uint8_t>(wrong_prefix_ >> kOpShift) != static_cast<std::uint8_t>(op)) {
    return fail("is one to another operation");
  }
  if (static_cast<std::uint32_t>(wrong_prefix_ >> kTagShift) != tag_) {
    return fail("is out of order: it carries another request's tag");
  }
  if (status >= protocol::kStatusCount) return fail("has an unknown status");
  const bool may_have_body = op == Op::lease || op == Op::take_all;
  if (protocol::is_decision(static_cast<Status>(status)) && size != kReplyHeaderBytes &&
      !may_have_body) {
    return fail("is a decision with a body");
  }
  ++counts.of[status];
  if (outcomes != nullptr) {
    const auto decided = static_cast<Status>(status);
    const bool is_taken = decided == Status::ok && op != Op::peek;
    const auto granted = protocol::wire::load<std::uint32_t>(at + protocol::reply_at::kGranted);
    const std::uint32_t shares = op == Op::take_all ? layers_ : 1;  // all gave as much
    outcomes->push_back({decided, is_taken ? granted / shares : 0});
  }
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
