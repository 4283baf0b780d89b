#include "server/announce.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace pail::server {
namespace {

// The other programs lie beside this one.
std::string own_directory() {
  char path[PATH_MAX];
  const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path - 1);
  if (size <= 0) return "";
  std::string text(path, static_cast<std::size_t>(size));
  text.resize(text.rfind('/') + 1);
  char here[PATH_MAX];
  if (::getcwd(here, sizeof here) == nullptr) return text;
  const std::string prefix = std::string(here) + "/";
  return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
}

}  // namespace

std::string welcome(const Server& server, const Config& config) {
  const auto addresses = server.addresses();
  const std::string programs = own_directory();
  const std::string& address = addresses.front();
  std::string text = fmt::format("paild {} serves\n", PAIL_VERSION);
  for (const std::string& one : addresses) text += fmt::format("  native   {}\n", one);
  for (const std::string& one : server.addresses(Protocol::resp)) {
    text += fmt::format("  RESP     {}\n", one);
  }
  if (!server.resp_fault().empty()) {
    text += fmt::format("  RESP     nowhere: {}\n", server.resp_fault());
  }
  text += fmt::format("  I/O      {} ({})\n", name(server.io().kind), server.io().reason);
  text += fmt::format("  shards   {}, up to {} MiB for keys, {} named policies\n",
                      server.shard_count(), config.memory_bytes >> 20, config.policies.size());
  text += fmt::format(
      "\nTry in another terminal:\n"
      "  {0}pail --server {1} take --rate 10/s --burst 20 alice\n"
      "  {0}pail --server {1} peek --rate 10/s --burst 20 alice\n"
      "  {0}pail-bench --server {1} --duration 5s\n\n",
      programs, address);
  return text;
}

void log_start(Log& log, const Server& server, const Config& config) {
  for (const std::string& address : server.addresses()) {
    log.write({LogLevel::info, "listening", "listening"}, {{"native", address}});
  }
  for (const std::string& address : server.addresses(Protocol::resp)) {
    log.write({LogLevel::info, "listening", "listening"}, {{"resp", address}});
  }
  if (!server.resp_fault().empty()) {
    log.write({LogLevel::warning, "no_resp", "Redis clients are not served: give --resp ADDR"},
              {{"reason", server.resp_fault()}});
  }
  log.write({LogLevel::info, "io", "how bytes move"},
            {{"backend", name(server.io().kind)}, {"reason", server.io().reason}});
  log.write({LogLevel::info, "start", "paild serves"},
            {{"version", PAIL_VERSION},
             {"pid", static_cast<std::uint64_t>(::getpid())},
             {"shards", server.shard_count()},
             {"memory_bytes", config.memory_bytes},
             {"policies", config.policies.size()}});
}

namespace {

std::string ready_text(const Server& server) {
  nlohmann::json ready;
  ready["native"] = server.addresses();
  ready["resp"] = server.addresses(Protocol::resp);
  ready["io"] = name(server.io().kind);
  ready["pid"] = ::getpid();
  return ready.dump() + '\n';
}

}  // namespace

tl::expected<void, std::string> write_ready_file(const std::string& path, const Server& server) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return tl::unexpected(fmt::format(
        "--ready-file {}: is there and is no regular file: it would be replaced", path));
  }
  const std::string draft = fmt::format("{}.{}", path, ::getpid());
  std::ofstream file(draft, std::ios::trunc);
  file << ready_text(server);
  file.close();
  if (!file || std::rename(draft.c_str(), path.c_str()) != 0) {
    std::remove(draft.c_str());
    return tl::unexpected(fmt::format("--ready-file {}: cannot be written", path));
  }
  return {};
}

void remove_ready_file(const std::string& path, const Server& server) {
  const std::string ours = ready_text(server);
  std::string there(ours.size() + 1, '\0');
  std::ifstream file(path);
  file.read(there.data(), static_cast<std::streamsize>(there.size()));
  there.resize(static_cast<std::size_t>(file.gcount()));
  if (there == ours) std::remove(path.c_str());
}

}  // namespace pail::server
