// Who takes part in a comparison: a server that we start, and how it is asked.
#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/child.hpp"
#include "bench/load_options.hpp"

namespace pail::bench {

// Where and how the servers run.
struct Arena {
  std::string programs;  // the directory of paild and pail-bench
  std::string directory;
  std::string congestion;
  int server_cpu = 0;
  int bench_cpu = 1;
  std::uint32_t keys = 1'000'000;
};

enum class Transport : std::uint8_t { tcp, unix_socket };
[[nodiscard]] std::string_view name(Transport transport) noexcept;

class Contestant {
 public:
  // Starts the server and waits until it answers on all its addresses. `label` tells several of
  // one kind apart.
  [[nodiscard]] static tl::expected<Contestant, std::string> start(const Arena& arena,
                                                                   const Target& target,
                                                                   const std::string& label);

  [[nodiscard]] const Target& target() const noexcept { return target_; }
  // How this one is asked over `transport`: the rest of the options is the caller's.
  [[nodiscard]] LoadOptions options(Transport transport) const;
  // Of all its processes for `transport`.
  [[nodiscard]] std::uint64_t resident_bytes(Transport transport) const;

  // Loads scripts, creates counters: once before the first run.
  [[nodiscard]] tl::expected<void, std::string> prepare(Transport transport);

 private:
  struct Server {
    Child child;
    protocol::Address address;
    std::string script_sha;
  };

  Contestant(const Arena& arena, const Target& target) : arena_(&arena), target_(target) {}
  [[nodiscard]] const Server& server(Transport transport) const noexcept;
  [[nodiscard]] tl::expected<void, std::string> launch(Transport transport,
                                                       const std::string& label);

  const Arena* arena_;
  Target target_;
  std::vector<Server> servers_;  // by Transport
};

// The Debian package to install for a target that is missing; empty if it is there, or ours.
[[nodiscard]] std::string missing_package(const Target& target);

}  // namespace pail::bench
