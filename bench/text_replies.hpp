// Checks the replies of one connection that speaks RESP or memcached's text protocol.
//
// Such replies carry no tag: what can be checked is their shape and their number, and that nothing
// comes that was not asked for.
#pragma once

#include <array>
#include <string_view>

#include "bench/load_options.hpp"
#include "bench/reply_reader.hpp"

namespace pail::bench {

class TextReplies final : public ReplyReader {
 public:
  // `options` says what was asked, and so how an answer reads.
  explicit TextReplies(const LoadOptions& options) noexcept;

  [[nodiscard]] std::int64_t check(protocol::Bytes chunk, std::uint32_t expected,
                                   StatusCounts& counts,
                                   std::vector<Outcome>* outcomes) noexcept override;
  [[nodiscard]] std::string fault() const override;

 private:
  static constexpr std::size_t kMaxLineBytes = 512;
  static constexpr std::int64_t kMaxArray = 16;

  // One line without its end. False: it cannot be part of an answer.
  [[nodiscard]] bool take_line(std::string_view line) noexcept;
  [[nodiscard]] bool take_memcached_line(std::string_view line) noexcept;
  [[nodiscard]] bool take_resp_line(std::string_view line) noexcept;
  [[nodiscard]] bool keep_number(std::string_view digits) noexcept;
  // All values of an answer are there.
  void finish_answer(StatusCounts& counts, std::vector<Outcome>* outcomes) noexcept;
  void begin_answer() noexcept;
  [[nodiscard]] protocol::Status verdict() const noexcept;

  const Target target_;
  const std::uint32_t cost_;
  const std::uint64_t limit_;  // of a counter
  std::int64_t owed_ = 0;      // lines that the current answer still lacks
  bool has_number_ = false;    // the first number of the answer is known
  bool is_error_ = false;      // some part of it is an error
  std::int64_t number_ = 0;
  std::size_t carried_ = 0;
  std::array<char, kMaxLineBytes> carry_{};
  std::array<char, 96> wrong_{};  // the beginning of the line that is wrong, with a 0 at its end
};

}  // namespace pail::bench
