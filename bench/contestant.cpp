#include "bench/contestant.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "bench/socket.hpp"
#include "bench/target_setup.hpp"

namespace pail::bench {
namespace {

constexpr std::chrono::seconds kPatience{10};
constexpr int kRetryMs = 10;

std::vector<std::string> pail_command(const Arena& arena, const std::string& address) {
  return {arena.programs + "/paild", "--shards",       "1",        "--listen",       address,
          "--tcp-congestion",        arena.congestion, "--policy", "bench=100/s,100"};
}

// Where the native protocol is spoken is of no interest, and must not be in the way.
std::vector<std::string> pail_resp_command(const Arena& arena, const std::string& native,
                                           const std::string& address) {
  std::vector<std::string> command = pail_command(arena, native);
  // Commands are long: at pipeline 256 it may lag behind, and would refuse a part. A Redis does
  // not.
  command.insert(command.end(), {"--resp", address, "--long-turn", "0"});
  return command;
}

std::vector<std::string> echo_command(const Arena& arena, const std::string& address) {
  return {arena.programs + "/pail-bench",
          "echo",
          "--listen",
          address,
          "--tcp-congestion",
          arena.congestion};
}

std::vector<std::string> redis_command(const std::string& unix_path, std::uint16_t port) {
  std::vector<std::string> command = {
      "redis-server", "--port", fmt::format("{}", port), "--bind", "127.0.0.1",
      "--save",       "",       "--appendonly",          "no"};
  if (!unix_path.empty()) command.insert(command.end(), {"--unixsocket", unix_path});
  return command;
}

std::vector<std::string> memcached_command(const std::string& unix_path, std::uint16_t port) {
  std::vector<std::string> command = {"memcached", "-t", "1", "-m", "2048"};
  if (geteuid() == 0) command.insert(command.end(), {"-u", "root"});
  if (unix_path.empty()) {
    command.insert(command.end(), {"-l", "127.0.0.1", "-p", fmt::format("{}", port), "-U", "0"});
  } else {
    command.insert(command.end(), {"-s", unix_path});
  }
  return command;
}

// A server that is not up yet is asked again, until it is, or gone.
tl::expected<void, std::string> await(Child& child, const protocol::Address& address,
                                      const std::string& log) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (child.is_running() && std::chrono::steady_clock::now() < until) {
    if (connect_to(address, "")) return {};
    ::poll(nullptr, 0, kRetryMs);
  }
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return tl::unexpected(
      fmt::format("the server for {} did not start:\n{}", address.text, text.str()));
}

}  // namespace

std::string_view name(Transport transport) noexcept {
  return transport == Transport::tcp ? "tcp" : "unix";
}

tl::expected<void, std::string> Contestant::launch(Transport transport, const std::string& label) {
  const std::string file = fmt::format("{}-{}", label, name(transport));
  const std::string log = fmt::format("{}/{}.log", arena_->directory, file);
  std::string path;
  const auto port = free_port();
  if (!port) return tl::unexpected(port.error());
  std::string text = fmt::format("127.0.0.1:{}", *port);
  if (transport == Transport::unix_socket) {
    path = fmt::format("{}/{}.sock", arena_->directory, file);
    text = "unix:" + path;
  }
  std::vector<std::string> command;
  switch (target_.kind) {
    case TargetKind::pail:
      command = pail_command(*arena_, text);
      break;
    case TargetKind::echo:
      command = echo_command(*arena_, text);
      break;
    case TargetKind::redis:
      command = target_.is_own
                    ? pail_resp_command(
                          *arena_, fmt::format("unix:{}/{}-native", arena_->directory, file), text)
                    : redis_command(path, *port);
      break;
    case TargetKind::memcached:
      command = memcached_command(path, *port);
      break;
  }
  auto child = Child::start(command, log, arena_->server_cpu);
  if (!child) return tl::unexpected(child.error());
  const auto address = protocol::parse_address(text);
  if (!address) return tl::unexpected(address.error());
  if (auto up = await(*child, *address, log); !up) return up;
  servers_.push_back({std::move(*child), *address, ""});
  return {};
}

tl::expected<Contestant, std::string> Contestant::start(const Arena& arena, const Target& target,
                                                        const std::string& label) {
  Contestant contestant(arena, target);
  for (const Transport transport : {Transport::tcp, Transport::unix_socket}) {
    if (auto launched = contestant.launch(transport, label); !launched) {
      return tl::unexpected(launched.error());
    }
  }
  return contestant;
}

const Contestant::Server& Contestant::server(Transport transport) const noexcept {
  return servers_[static_cast<std::size_t>(transport)];
}

LoadOptions Contestant::options(Transport transport) const {
  LoadOptions options;
  options.target = target_;
  options.server = server(transport).address;
  options.script_sha = server(transport).script_sha;
  options.congestion = arena_->congestion;
  options.pin_cpu = arena_->bench_cpu;
  options.keys = arena_->keys;
  options.limit = {1'000'000'000, 100, 100};
  options.rate_text = "100/s";
  if (target_.is_native()) options.policy = "bench";
  return options;
}

std::uint64_t Contestant::resident_bytes(Transport transport) const {
  return server(transport).child.resident_bytes();
}

tl::expected<void, std::string> Contestant::prepare(Transport transport) {
  LoadOptions prepared = options(transport);
  if (auto done = prepare_target(prepared); !done) return done;
  servers_[static_cast<std::size_t>(transport)].script_sha = prepared.script_sha;
  return {};
}

std::string missing_package(const Target& target) {
  const bool is_redis = target.kind == TargetKind::redis && !target.is_own;
  if (is_redis && !is_installed("redis-server")) return "redis-server";
  if (target.kind == TargetKind::memcached && !is_installed("memcached")) return "memcached";
  return "";
}

}  // namespace pail::bench
