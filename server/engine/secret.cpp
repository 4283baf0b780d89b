#include "server/engine/secret.hpp"

#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace pail::engine {

HashSecret random_secret() {
  HashSecret secret;
  for (std::size_t filled = 0; filled < secret.size();) {
    const ssize_t got = getrandom(secret.data() + filled, secret.size() - filled, 0);
    if (got < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "getrandom");
    }
    if (got > 0) filled += static_cast<std::size_t>(got);
  }
  return secret;
}

}  // namespace pail::engine
