#include "bench/text_replies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace pail::bench {

using protocol::Status;

TextReplies::TextReplies(const LoadOptions& options) noexcept
    : target_(options.target), cost_(options.cost), limit_(options.limit.burst) {
  begin_answer();
}

std::int64_t TextReplies::check(protocol::Bytes chunk, std::uint32_t expected, StatusCounts& counts,
                                std::vector<Outcome>* outcomes) noexcept {
  const char* at = reinterpret_cast<const char*>(chunk.data());
  const char* const end = at + chunk.size();
  std::uint32_t done = 0;
  const auto fail = [this](std::string_view line) {
    const std::size_t size = std::min(line.size(), wrong_.size() - 1);
    if (size != 0) std::memcpy(wrong_.data(), line.data(), size);
    wrong_[size] = '\0';
    return std::int64_t{-1};
  };
  while (at != end) {
    const auto* const newline =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
    const auto size = static_cast<std::size_t>((newline == nullptr ? end : newline) - at);
    if (done == expected || carried_ + size > carry_.size()) return fail({at, size});
    std::string_view line(at, size);
    if (newline == nullptr || carried_ != 0) {
      if (size != 0) std::memcpy(carry_.data() + carried_, at, size);
      carried_ += size;
      line = {carry_.data(), carried_};
    }
    if (newline == nullptr) return done;
    at = newline + 1;
    carried_ = 0;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!take_line(line)) return fail(line);
    if (owed_ == 0) {
      finish_answer(counts, outcomes);
      ++done;
    }
  }
  return done;
}

bool TextReplies::take_line(std::string_view line) noexcept {
  --owed_;
  return target_.kind == TargetKind::memcached ? take_memcached_line(line) : take_resp_line(line);
}

bool TextReplies::take_memcached_line(std::string_view line) noexcept {
  if (line == "NOT_FOUND" || line == "ERROR" || line.starts_with("CLIENT_ERROR ") ||
      line.starts_with("SERVER_ERROR ")) {
    is_error_ = true;
    return true;
  }
  return keep_number(line);
}

bool TextReplies::take_resp_line(std::string_view line) noexcept {
  if (line.empty()) return false;
  const std::string_view rest = line.substr(1);
  switch (line.front()) {
    case ':':
      return keep_number(rest);
    case '-':
      is_error_ = true;
      return true;
    case '*': {
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
      if (error != std::errc() || end != rest.data() + rest.size()) return false;
      if (size < 0 || size > kMaxArray) return false;
      owed_ += size;
      return true;
    }
    default:
      return false;  // Nothing that we ask for is answered by a text.
  }
}

bool TextReplies::keep_number(std::string_view digits) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  if (!has_number_) number_ = number;
  has_number_ = true;
  return true;
}

Status TextReplies::verdict() const noexcept {
  if (is_error_ || !has_number_) return Status::bad_request;
  bool is_admitted = number_ >= 0 && static_cast<std::uint64_t>(number_) <= limit_;
  if (target_.kind == TargetKind::redis) {
    if (target_.method == RedisMethod::lua) is_admitted = number_ == 1;
    if (target_.method == RedisMethod::throttle) is_admitted = number_ == 0;
  }
  return is_admitted ? Status::ok : Status::denied;
}

void TextReplies::finish_answer(StatusCounts& counts, std::vector<Outcome>* outcomes) noexcept {
  const Status status = verdict();
  ++counts.of[static_cast<std::size_t>(status)];
  if (outcomes != nullptr) outcomes->push_back({status, status == Status::ok ? cost_ : 0});
  begin_answer();
}

void TextReplies::begin_answer() noexcept {
  const bool is_two_commands =
      target_.kind == TargetKind::redis && target_.method == RedisMethod::incr;
  owed_ = is_two_commands ? 2 : 1;
  has_number_ = false;
  is_error_ = false;
}

std::string TextReplies::fault() const {
  return fmt::format("a reply is wrong, or came although nothing was asked: '{}'", wrong_.data());
}

}  // namespace pail::bench
