// Who may talk to the server, and who may do what only an operator should: asked once a
// connection, at HELLO, and again when the tokens have changed.
#pragma once

#include <cstdint>
#include <string_view>

namespace pail::frontend {

struct Permission {
  bool is_admitted = false;
  bool is_admin = false;     // may RESET
  std::uint64_t ticket = 0;  // stands for the token that was shown, without telling it; 0: none
};

class Gate {
 public:
  virtual ~Gate() = default;
  // `is_local`: the peer is on this machine. Called by all shards at once.
  [[nodiscard]] virtual Permission admit(std::string_view token, bool is_local) const noexcept = 0;
  // What the holder of a ticket may do now.
  [[nodiscard]] virtual Permission renew(std::uint64_t ticket, bool is_local) const noexcept = 0;
  // For the HELLO reply of those who are not admitted; static text.
  [[nodiscard]] virtual std::string_view refusal() const noexcept = 0;
};

}  // namespace pail::frontend
