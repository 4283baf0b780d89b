// Where operators' questions about policies, and their changes, are answered: by whoever owns them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "protocol/codec.hpp"

namespace pail::frontend {

class PolicyDesk {
 public:
  struct Answer {
    bool is_done = false;         // else the text says why not, and nothing has changed
    std::size_t bytes = 0;        // of text, in the page
    std::uint32_t lines = 0;      // that it has
    std::uint32_t remaining = 0;  // and that stand behind it
    std::uint32_t version = 0;    // of the policies in force
  };
  virtual ~PolicyDesk() = default;
  // `words` have a zero byte between each two. `skip`: lines to leave out in front. Called by all
  // shards; it may take milliseconds, which is a matter of operators, not of requests.
  [[nodiscard]] virtual Answer ask(std::string_view words, std::uint32_t skip,
                                   protocol::Buffer page) noexcept = 0;
};

}  // namespace pail::frontend
