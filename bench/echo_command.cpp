// `pail-bench echo`: the ceiling as a server of its own.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "bench/command.hpp"
#include "bench/echo_process.hpp"

namespace pail::bench {

std::function<int()> add_echo_command(CLI::App& app) {
  struct Arguments {
    std::string listen = "127.0.0.1:7245";
    std::string congestion;
    int pin = -1;
  };
  auto arguments = std::make_shared<Arguments>();
  app.add_option("--listen", arguments->listen, "Address to listen on: HOST:PORT or unix:PATH")
      ->capture_default_str();
  app.add_option("--tcp-congestion", arguments->congestion,
                 "TCP congestion control (cubic, bbr); the system's if not given");
  app.add_option("--pin", arguments->pin, "CPU to run on")->check(CLI::Range(0, 1023));

  return [arguments] {
    const auto address = protocol::parse_address(arguments->listen);
    if (!address) throw BadArguments("--listen: " + address.error());
    if (!address->is_loopback) throw BadArguments("--listen: echo serves loopback addresses only");
    const std::string error =
        serve_echo(*address, arguments->congestion, arguments->pin, [](const std::string& text) {
          fmt::print("pail-bench echo: listening on {}\n", text);
          std::fflush(stdout);
        });
    if (error.empty()) return kExitOk;
    fmt::print(stderr, "pail-bench echo: {}\n", error);
    return kExitFailed;
  };
}

}  // namespace pail::bench
