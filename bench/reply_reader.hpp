// What replies come to, whatever protocol they are written in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages.hpp"

namespace pail::bench {

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

// One answer, for those who want to know them one by one: the open loop and the audit.
struct Outcome {
  protocol::Status status = protocol::Status::ok;
  std::uint32_t granted = 0;  // tokens taken: 0 for a refusal, an error and a look
};

// Reads the replies of one connection, in whatever chunks they arrive, and checks them.
class ReplyReader {
 public:
  ReplyReader() = default;
  ReplyReader(const ReplyReader&) = delete;
  ReplyReader& operator=(const ReplyReader&) = delete;
  virtual ~ReplyReader() = default;

  // Checks all of `chunk` and counts its replies by status; appends an outcome for each where
  // `outcomes` is not null. At most `expected` replies may come. The number of whole replies; -1 if
  // one is wrong: fault() says how.
  [[nodiscard]] virtual std::int64_t check(protocol::Bytes chunk, std::uint32_t expected,
                                           StatusCounts& counts,
                                           std::vector<Outcome>* outcomes) noexcept = 0;
  [[nodiscard]] virtual std::string fault() const = 0;
};

}  // namespace pail::bench
