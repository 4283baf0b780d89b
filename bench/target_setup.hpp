// What a rival needs before a run: its script, its counters.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "bench/load_options.hpp"

namespace pail::bench {

// Over a connection of its own. Redis: loads the script and keeps its name in `options`, or checks
// that CL.THROTTLE is known. memcached: creates every key's counter, for its incr creates none.
// Nothing for Pail and the echo. The error is for the user.
[[nodiscard]] tl::expected<void, std::string> prepare_target(LoadOptions& options);

}  // namespace pail::bench
