// What a server that has started tells people, and the programs that wait for it.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "server/config.hpp"
#include "server/log.hpp"
#include "server/server.hpp"

namespace pail::server {

// What it listens on, with which backend and why, and three commands to paste.
[[nodiscard]] std::string welcome(const Server& server, const Config& config);

// The same into the log, for machines.
void log_start(Log& log, const Server& server, const Config& config);

// {"native": ["127.0.0.1:7245"], "resp": ["127.0.0.1:7246"], "io": "uring", "pid": 1}: appears
// whole or not at all.
[[nodiscard]] tl::expected<void, std::string> write_ready_file(const std::string& path,
                                                               const Server& server);

// At the end: who waits for the file to appear is not told by an old one. Another server's, that
// has taken its place, stays.
void remove_ready_file(const std::string& path, const Server& server);

}  // namespace pail::server
