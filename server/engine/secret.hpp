// The secret of the keyed hash: 128 random bits of this server. Kept out of logs; in a snapshot it
// is readable by the server's user alone.
#pragma once

#include <array>
#include <cstddef>

namespace pail::engine {

using HashSecret = std::array<std::byte, 16>;

// From the kernel's generator, waiting for it to be seeded. Throws std::system_error if there is
// none: a server without a secret must not start.
[[nodiscard]] HashSecret random_secret();

}  // namespace pail::engine
