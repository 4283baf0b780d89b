#include "server/access.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "protocol/messages.hpp"
#include "protocol/regular_file.hpp"

namespace pail::server {
namespace {

constexpr std::size_t kMaxNameBytes = 64;

Digest digest_of(std::string_view token) noexcept {
  Digest digest;
  ::SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

// The digest's first half tells the tokens apart and says nothing about them.
std::uint64_t ticket_of(const Digest& digest) noexcept {
  std::uint64_t ticket = 0;
  std::memcpy(&ticket, digest.data(), sizeof ticket);
  return ticket | 1;
}

bool is_name(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string fault_in_token(std::string_view token) {
  if (token.size() < kMinTokenBytes || token.size() > protocol::kMaxTokenBytes) {
    return fmt::format("a token has {} to {} characters; this one has {}", kMinTokenBytes,
                       protocol::kMaxTokenBytes, token.size());
  }
  const bool is_printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c <= 0x7E; });
  return is_printable ? "" : "a token is printable ASCII";
}

// One line that is neither empty nor a comment. The error is without the place.
tl::expected<Token, std::string> parse_line(const std::string& line, const Tokens& others) {
  std::istringstream words(line);
  std::string name, token, role, more;
  words >> name >> token >> role >> more;
  if (!is_name(name)) {
    return tl::unexpected(
        std::string("a line is: name token [admin]; a name is 1 to 64 of "
                    "letters, digits and . _ -"));
  }
  if (const std::string fault = fault_in_token(token); !fault.empty()) {
    return tl::unexpected(name + ": " + fault);
  }
  if ((!role.empty() && role != "admin") || !more.empty()) {
    return tl::unexpected(name + ": behind the token stands \"admin\" or nothing");
  }
  const Digest digest = digest_of(token);
  OPENSSL_cleanse(token.data(), token.size());
  for (const Token& other : others) {
    if (other.name == name) return tl::unexpected(name + ": this name is there already");
    if (other.digest == digest) return tl::unexpected(name + ": the same token as " + other.name);
  }
  return Token{std::move(name), digest, role == "admin"};
}

}  // namespace

tl::expected<Tokens, std::string> parse_tokens(std::string_view text, const std::string& where) {
  Tokens tokens;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    auto token = parse_line(line, tokens);
    if (!token) return tl::unexpected(fmt::format("{}:{}: {}", where, number, token.error()));
    if (tokens.size() == kMaxTokens) {
      return tl::unexpected(fmt::format("{}:{}: {} tokens at most", where, number, kMaxTokens));
    }
    tokens.push_back(std::move(*token));
  }
  if (tokens.empty()) return tl::unexpected(where + ": no token in it; a line is: name token");
  return tokens;
}

tl::expected<Tokens, std::string> read_token_file(const std::string& path) {
  std::string text(kMaxTokenFileBytes + 1, '\0');
  const auto file = protocol::read_regular_file(path, text);
  tl::expected<Tokens, std::string> tokens;
  if (!file) {
    tokens = tl::unexpected(fmt::format("{}: {}", path, file.error()));
  } else if ((file->mode & (S_IROTH | S_IWOTH)) != 0) {
    tokens = tl::unexpected(path + ": everybody on this machine can read or write it; chmod 600");
  } else {
    tokens = parse_tokens(file->text, path);
  }
  OPENSSL_cleanse(text.data(), text.size());
  return tokens;
}

void Access::replace(Tokens tokens) noexcept {
  const std::lock_guard lock(mutex_);
  tokens_.swap(tokens);
}

// Looks at every token whatever is found, and at whole digests: nothing about how close a guess
// came can be read from the time.
frontend::Permission Access::admit(std::string_view token, bool is_local) const noexcept {
  if (!is_wanted_) return {true, is_local, 0};
  const Digest shown = digest_of(token);
  unsigned is_known = 0;
  unsigned is_admin = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const Token& one : tokens_) {
      const unsigned is_same =
          ::CRYPTO_memcmp(one.digest.data(), shown.data(), shown.size()) == 0 ? 1 : 0;
      is_known |= is_same;
      is_admin |= is_same & static_cast<unsigned>(one.is_admin);
    }
  }
  if (is_known == 0) return {};
  return {true, is_admin != 0, ticket_of(shown)};
}

frontend::Permission Access::renew(std::uint64_t ticket, bool is_local) const noexcept {
  if (!is_wanted_) return {true, is_local, 0};
  const std::lock_guard lock(mutex_);
  for (const Token& one : tokens_) {
    if (ticket_of(one.digest) == ticket) return {true, one.is_admin, ticket};
  }
  return {};
}

}  // namespace pail::server
