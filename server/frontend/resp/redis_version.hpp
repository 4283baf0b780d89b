// The version of Redis whose clients find what they look for here, as INFO and HELLO tell it.
#pragma once

#include <string_view>

namespace pail::frontend::resp {

inline constexpr std::string_view kRedisVersion = "7.4.0";

}  // namespace pail::frontend::resp
