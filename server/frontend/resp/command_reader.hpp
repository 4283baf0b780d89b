// Cuts a byte stream into commands of RESP, the protocol of Redis; no I/O in it. One a connection,
// used by one thread.
//
//   *2\r\n $3\r\n GET\r\n $1\r\n k\r\n      an array of bulk strings, which programs send
//   GET k\r\n                            a line of words, which people type
//
//   reader.feed(chunk);
//   while (reader.next(command)) ...     // borrows from the chunk, or from the carry buffer where
//                                        // the command began in an earlier chunk
//   if (auto fault = reader.fault()) ... // the stream is not ours: say so and close
//   reader.end_chunk();                  // commands end here; the chunk may be recycled
//
// Between chunks the reader holds either nothing or the beginning of one command, in the carry
// buffer that its owner lends: so a peer costs at most that buffer. Every length is checked before
// it is believed, and nothing is ever allocated. All commands of one chunk are valid at the same
// time, until end_chunk(), so that they can be decided in groups.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace pail::frontend::resp {

inline constexpr std::size_t kMaxCommandBytes = 16 * 1024;  // lengths and line ends included
inline constexpr std::size_t kMaxStrangerBytes = 1024;      // likewise, before AUTH
inline constexpr std::size_t kMaxArguments = 64;            // the command's name included

// Borrowed words; the first is the command's name.
struct Command {
  std::array<std::string_view, kMaxArguments> words;
  std::size_t count = 0;

  [[nodiscard]] std::string_view name() const noexcept { return words[0]; }
  [[nodiscard]] std::span<const std::string_view> arguments() const noexcept {
    return {words.data() + 1, count - 1};
  }
};

class CommandReader {
 public:
  CommandReader() = default;  // Reads nothing: assign a real one before use.
  // `carry` is borrowed for the reader's life and bounds the size of a command.
  explicit CommandReader(std::span<std::byte> carry) noexcept
      : carry_(reinterpret_cast<char*>(carry.data())),
        carry_bytes_(carry.size()),
        limit_(carry.size()) {}

  void feed(std::span<const std::byte> chunk) noexcept {
    assert(rest_.empty());
    rest_ = {reinterpret_cast<const char*>(chunk.data()), chunk.size()};
  }

  // The next whole command, which has at least its name. False: the chunk is used up but for the
  // beginning of a command, or fault().
  [[nodiscard]] bool next(Command& command) noexcept;

  // Keeps the beginning of an unfinished command. Call it only after next() has said false.
  void end_chunk() noexcept;

  // Why nothing more can be read; empty: it can.
  [[nodiscard]] std::string_view fault() const noexcept { return fault_; }

  // The largest command from here on; at most the carry buffer.
  void set_limit(std::size_t bytes) noexcept {
    limit_ = bytes < carry_bytes_ ? bytes : carry_bytes_;
  }

  // Bytes fed and not yet returned; those of the command under way included.
  [[nodiscard]] std::size_t pending_bytes() const noexcept { return held_ + rest_.size(); }

 private:
  [[nodiscard]] bool next_carried(Command& command) noexcept;
  bool fail(std::string_view reason) noexcept;  // returns false

  std::string_view rest_;  // of the chunk, not yet returned
  char* carry_ = nullptr;
  std::size_t carry_bytes_ = 0;
  std::size_t held_ = 0;  // bytes of a command that began in an earlier chunk
  std::size_t limit_ = 0;
  std::string_view fault_;
};

}  // namespace pail::frontend::resp
