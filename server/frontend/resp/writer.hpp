// Replies in RESP2 or RESP3, written into room that the caller has made sure of: every function
// says what it needs at most.
#pragma once

#include <cassert>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace pail::frontend::resp {

inline constexpr std::size_t kIntegerBytes = 23;  // of a reply: sign, 19 digits, type, line end

class Writer {
 public:
  Writer(std::span<std::byte> room, bool is_resp3) noexcept
      : begin_(reinterpret_cast<char*>(room.data())),
        at_(begin_),
        end_(begin_ + room.size()),
        is_resp3_(is_resp3) {}

  [[nodiscard]] bool is_resp3() const noexcept { return is_resp3_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept {
    return static_cast<std::size_t>(at_ - begin_);
  }
  [[nodiscard]] std::size_t left_bytes() const noexcept {
    return static_cast<std::size_t>(end_ - at_);
  }

  // kIntegerBytes each.
  void integer(std::int64_t value) noexcept { number(':', value); }
  void array(std::size_t size) noexcept { number('*', static_cast<std::int64_t>(size)); }
  // Of `pairs` keys, each with its value. In RESP2 an array of both in turn.
  void map(std::size_t pairs) noexcept {
    number(is_resp3_ ? '%' : '*', static_cast<std::int64_t>(is_resp3_ ? pairs : 2 * pairs));
  }
  void null() noexcept { raw(is_resp3_ ? "_\r\n" : "$-1\r\n"); }
  // The text and 3 bytes. It holds no line end.
  void simple(std::string_view text) noexcept { line('+', text); }
  void error(std::string_view text) noexcept { line('-', text); }
  // Any bytes, and kIntegerBytes + 2 more.
  void bulk(std::string_view bytes) noexcept {
    number('$', static_cast<std::int64_t>(bytes.size()));
    raw(bytes);
    raw("\r\n");
  }

  // As bulk(), and marked as text for people. RESP3 only; 4 bytes more.
  void verbatim(std::string_view text) noexcept {
    number('=', static_cast<std::int64_t>(text.size() + 4));
    raw("txt:");
    raw(text);
    raw("\r\n");
  }

  // The rest of the room, in the other protocol.
  [[nodiscard]] Writer as(bool is_resp3) const noexcept {
    Writer writer = *this;
    writer.is_resp3_ = is_resp3;
    return writer;
  }
  [[nodiscard]] std::string_view text() const noexcept { return {begin_, size_bytes()}; }

  // 45 bytes.
  template <class Integer>
  void bulk_integer(Integer value) noexcept {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    bulk({digits, static_cast<std::size_t>(end - digits)});
  }

  // Values with names: a map of `count` in RESP3, an array of the values alone in RESP2.
  void fields(std::size_t count) noexcept { is_resp3_ ? map(count) : array(count); }
  // The name of the value that comes next; 3 bytes more.
  void field(std::string_view name) noexcept {
    if (is_resp3_) simple(name);
  }

  // Pieces of a line that line_end() ends.
  void raw(std::string_view text) noexcept {
    assert(text.size() <= left_bytes());
    if (text.empty()) return;
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }
  // What a peer sent, as a part of an error: at most `most` bytes, and nothing that could end the
  // line.
  void quoted(std::string_view text, std::size_t most) noexcept {
    for (const char c : text.substr(0, most)) {
      assert(at_ < end_);
      *at_++ = c >= ' ' && c <= '~' ? c : '?';
    }
  }
  void decimal(std::uint64_t value) noexcept {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    raw({digits, static_cast<std::size_t>(end - digits)});
  }
  void line_end() noexcept { raw("\r\n"); }

 private:
  void number(char type, std::int64_t value) noexcept {
    assert(left_bytes() >= kIntegerBytes);
    *at_++ = type;
    if (value >= 0 && value < 10) {
      *at_++ = static_cast<char>('0' + value);
    } else {
      at_ = std::to_chars(at_, end_, value).ptr;
    }
    *at_++ = '\r';
    *at_++ = '\n';
  }
  void line(char type, std::string_view text) noexcept {
    raw({&type, 1});
    raw(text);
    line_end();
  }

  char* begin_;
  char* at_;
  char* end_;
  bool is_resp3_;
};

}  // namespace pail::frontend::resp
