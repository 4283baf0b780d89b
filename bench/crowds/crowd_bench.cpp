// Peers that a server would rather not have, as many as asked for: to be run beside a load that is
// measured. It paces itself, so as not to take the processor from that load.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "bench/socket.hpp"
#include "protocol/codec.hpp"

namespace {

using namespace pail;
using bench::Socket;

volatile sig_atomic_t stop_asked = 0;

struct Crowd {
  protocol::Address server;
  std::string congestion;
  std::uint32_t count = 100;
  std::vector<Socket> sockets;
  std::vector<std::byte> takes;  // whole frames
  std::uint64_t reconnected = 0;
};

std::vector<std::byte> hello() {
  std::vector<std::byte> bytes(protocol::kMaxHelloBytes);
  protocol::Hello message;
  message.client_name = "crowd-bench";
  bytes.resize(protocol::encode(message, bytes));
  return bytes;
}

std::vector<std::byte> takes(std::uint32_t count) {
  std::vector<std::byte> all;
  protocol::Request request;
  request.op = protocol::Op::take;
  request.cost = 1;
  request.has_inline_limit = true;
  request.inline_limit = {1'000'000'000, 1'000'000, 1'000'000};
  request.key = protocol::as_body("crowd");
  std::array<std::byte, protocol::kMaxRequestBytes> room;
  for (std::uint32_t tag = 1; tag <= count; ++tag) {
    request.tag = tag;
    const std::size_t size = protocol::encode(request, room);
    all.insert(all.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return all;
}

[[noreturn]] void die(const std::string& text) {
  fmt::print(stderr, "crowd-bench: {}\n", text);
  std::exit(1);
}

Socket connect(const Crowd& crowd) {
  auto socket = bench::connect_to(crowd.server, crowd.congestion);
  if (!socket) die(socket.error());
  return std::move(*socket);
}

Socket greeted(const Crowd& crowd) {
  Socket socket = connect(crowd);
  if (const auto said = bench::say_hello(socket, ""); !said) die(said.error());
  return socket;
}

bool is_alive(const Socket& socket) {
  std::byte one;
  const ssize_t size = ::recv(socket.fd(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return size > 0 || (size < 0 && errno == EAGAIN);
}

void pause_ms(int ms) {
  ::poll(nullptr, 0, ms);
}

// Connected and silent.
void idle(Crowd& crowd) {
  for (const Socket& socket : crowd.sockets) {
    if (!is_alive(socket)) die("a connection was closed");
  }
  pause_ms(1000);
}

// Sends what fits and reads nothing.
void mute(Crowd& crowd) {
  for (Socket& socket : crowd.sockets) {
    const ssize_t sent =
        ::send(socket.fd(), crowd.takes.data(), crowd.takes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) {
      socket = greeted(crowd);
      ++crowd.reconnected;
    }
  }
  pause_ms(10);
}

// A byte of HELLO now and then; whoever is closed comes again.
void loris(Crowd& crowd) {
  static std::vector<std::size_t> said(crowd.sockets.size(), 0);
  static const std::vector<std::byte> bytes = hello();
  std::size_t turn = 0;
  for (std::size_t i = 0; i < crowd.sockets.size(); ++i) {
    const bool is_sent =
        said[i] + 1 < bytes.size() &&
        ::send(crowd.sockets[i].fd(), &bytes[said[i]], 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    ++said[i];
    if (!is_sent || !is_alive(crowd.sockets[i])) {
      crowd.sockets[i] = connect(crowd);
      said[i] = 0;
      ++crowd.reconnected;
    }
    if (++turn % 50 == 0) pause_ms(1);  // the whole round takes some tenths of a second
    if (stop_asked != 0) return;
  }
}

// `count` new connections a second, each with one take.
void come_and_go(Crowd& crowd) {
  const std::uint32_t each = crowd.count / 100;
  const std::size_t take_bytes = crowd.takes.size() / 1000;
  for (std::uint32_t i = 0; i < each; ++i) {
    const Socket socket = greeted(crowd);
    std::array<std::byte, protocol::kReplyHeaderBytes> reply;
    if (::send(socket.fd(), crowd.takes.data(), take_bytes, MSG_NOSIGNAL) < 0 ||
        ::recv(socket.fd(), reply.data(), reply.size(), MSG_WAITALL) <= 0) {
      die("no answer to a take");
    }
    ++crowd.reconnected;
  }
  pause_ms(10);
}

// 100,000 frames without waiting for an answer; the answers are read as they come.
void flood(Crowd& crowd) {
  std::array<char, 65536> room;
  for (const Socket& socket : crowd.sockets) {
    for (int n = 0; n < 100; ++n) {
      for (std::size_t at = 0; at < crowd.takes.size();) {
        const ssize_t sent = ::send(socket.fd(), crowd.takes.data() + at, crowd.takes.size() - at,
                                    MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0) at += static_cast<std::size_t>(sent);
        if (sent < 0 && errno != EAGAIN) die("the flood was cut off");
        while (::recv(socket.fd(), room.data(), room.size(), MSG_DONTWAIT) > 0) {
        }
        if (sent < 0) pause_ms(1);
      }
    }
  }
}

struct Kind {
  bool is_greeted;
  bool is_standing;  // has `count` connections
  void (*act)(Crowd&);
};
const std::map<std::string, Kind> kKinds = {
    {"idle", {true, true, idle}},    {"mute", {true, true, mute}},
    {"loris", {false, true, loris}}, {"connect", {true, false, come_and_go}},
    {"flood", {true, true, flood}},
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"crowd-bench: peers that misbehave, until SIGTERM", "crowd-bench"};
  std::string server = "127.0.0.1:7245";
  std::string kind_name;
  Crowd crowd;
  app.add_option("kind", kind_name,
                 "idle: silent; mute: never reads; loris: says HELLO for ever; connect: so many "
                 "connections a second; flood: 100,000 frames at once")
      ->required()
      ->check(CLI::IsMember({"idle", "mute", "loris", "connect", "flood"}));
  app.add_option("--count", crowd.count, "Connections, or connections a second");
  app.add_option("--server", server)->capture_default_str();
  app.add_option("--tcp-congestion", crowd.congestion);
  CLI11_PARSE(app, argc, argv);
  const auto address = protocol::parse_address(server);
  if (!address) die(address.error());
  crowd.server = *address;
  crowd.takes = takes(1000);
  const auto stop = [](int) { stop_asked = 1; };
  ::signal(SIGTERM, stop);
  ::signal(SIGINT, stop);

  const Kind& kind = kKinds.at(kind_name);
  for (std::uint32_t i = 0; kind.is_standing && i < crowd.count; ++i) {
    crowd.sockets.push_back(kind.is_greeted ? greeted(crowd) : connect(crowd));
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  while (stop_asked == 0) kind.act(crowd);
  fmt::print("{} connections were made again\n", crowd.reconnected);
  return 0;
}
