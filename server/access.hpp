// Tokens: who holds one may talk to the server. They are given in a file, one a line:
//
//   # name    token                              may it administer?
//   gateways  0d6f1c3b7a5e4f92b8c0a1d2e3f40516
//   ops       a-second-secret-of-16-bytes-or-more  admin
//
// Only SHA-256 digests are kept, and what a peer shows is compared with all of them in a time that
// depends on their number alone. Several tokens are valid at once, so that they can be rotated: add
// the new one, reload (SIGHUP), move the clients over, remove the old one, reload.
//
// Without a token file everybody may talk, and whoever is on this machine may administer.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "server/frontend/gate.hpp"

namespace pail::server {

inline constexpr std::size_t kMaxTokens = 64;
inline constexpr std::size_t kMinTokenBytes = 16;  // so that guessing is hopeless
inline constexpr std::size_t kMaxTokenFileBytes = 64 * 1024;

using Digest = std::array<unsigned char, 32>;

struct Token {
  std::string name;
  Digest digest{};
  bool is_admin = false;
};
using Tokens = std::vector<Token>;

// Errors name the line and what would be right, never the token. `where` is the file's name.
[[nodiscard]] tl::expected<Tokens, std::string> parse_tokens(std::string_view text,
                                                             const std::string& where);
// The same for a file, which others than its owner and group must not be able to read or write.
[[nodiscard]] tl::expected<Tokens, std::string> read_token_file(const std::string& path);

class Access final : public frontend::Gate {
 public:
  // Without a list of tokens none is wanted.
  explicit Access(std::optional<Tokens> tokens)
      : is_wanted_(tokens.has_value()), tokens_(std::move(tokens).value_or(Tokens{})) {}

  // Any thread. What was admitted before is up to renew().
  void replace(Tokens tokens) noexcept;

  [[nodiscard]] frontend::Permission admit(std::string_view token,
                                           bool is_local) const noexcept override;
  [[nodiscard]] frontend::Permission renew(std::uint64_t ticket,
                                           bool is_local) const noexcept override;
  [[nodiscard]] std::string_view refusal() const noexcept override {
    return "this server wants a token that it knows: pail and pail-bench take it from PAIL_TOKEN "
           "or "
           "--token-file, programs from ClientOptions::token";
  }

 private:
  const bool is_wanted_;
  // Taken once a HELLO, for the time of at most 64 comparisons; never on the request path.
  mutable std::mutex mutex_;
  Tokens tokens_;  // under the mutex
};

}  // namespace pail::server
