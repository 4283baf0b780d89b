// Concern: only who shows a token that is valid now is served, and only administrators reset.
// Method: the file by itself, a server within the test on either backend, and paild with SIGHUP.
#include "server/access.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/server/fixture.hpp"
#include "tests/server/process.hpp"

namespace pail::test {
namespace {

using namespace server;
using protocol::Status;

constexpr const char* kPlain = "plain-token-0123456789";
constexpr const char* kAdmin = "admin-token-0123456789";
constexpr const char* kOther = "other-token-0123456789";

Tokens tokens_of(const std::string& text) {
  auto tokens = parse_tokens(text, "tokens");
  if (!tokens) FAIL(tokens.error());
  return *tokens;
}
std::string line(const std::string& name, const std::string& token, bool is_admin = false) {
  return name + " " + token + (is_admin ? " admin\n" : "\n");
}

class TokenFile {
 public:
  explicit TokenFile(const std::string& text, mode_t mode = 0600)
      : path_("/tmp/pail-access-test." + std::to_string(::getpid()) + ".tokens") {
    write(text, mode);
  }
  ~TokenFile() { ::unlink(path_.c_str()); }
  void write(const std::string& text, mode_t mode = 0600) const {
    ::unlink(path_.c_str());
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), mode);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

TEST_CASE("a token file: names, tokens, roles, comments, and no token kept") {
  const Tokens tokens = tokens_of("# who\n\n" + line("gateways", kPlain) + "  " +
                                  line("ops", kAdmin, true) + "last " + kOther);
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0].name == "gateways");
  CHECK_FALSE(tokens[0].is_admin);
  CHECK(tokens[1].is_admin);
  // SHA-256 of "plain-token-0123456789", by sha256sum.
  CHECK(tokens[0].digest[0] == 0xcf);
  CHECK(tokens[0].digest[31] == 0xf8);
}

TEST_CASE("what is wrong with a token file is said, and no token is repeated") {
  struct {
    std::string text;
    const char* says;
  } const cases[] = {
      {"", "no token"},
      {"# only a comment\n", "no token"},
      {"name\n", "tokens:1: name: a token has 16 to 256"},
      {line("a", kPlain) + line("b", "short"), "tokens:2: b: a token has 16 to 256"},
      {line("a", std::string(257, 'x')), "257"},
      {line("sl/ash", kPlain), "tokens:1: a line is: name token [admin]"},
      {line("a", kPlain) + line("a", kOther), "already"},
      {line("a", kPlain) + line("b", kPlain), "the same token as a"},
      {std::string("a ") + kPlain + " root\n", "admin"},
      {std::string("a ") + kPlain + " admin more\n", "admin"},
      {"a plain-token-\x01\x02-0123456789\n", "printable"},
  };
  for (const auto& wrong : cases) {
    const auto tokens = parse_tokens(wrong.text, "tokens");
    CAPTURE(wrong.text);
    REQUIRE_FALSE(tokens);
    CHECK(tokens.error().find(wrong.says) != std::string::npos);
    CHECK(tokens.error().find("0123456789") == std::string::npos);
  }
  std::string many;
  for (std::size_t i = 0; i <= kMaxTokens; ++i) {
    many += line("n" + std::to_string(i), kPlain + std::to_string(i));
  }
  CHECK(parse_tokens(many, "tokens").error().find("64 tokens at most") != std::string::npos);
}

TEST_CASE("a token file that others can read or write is refused") {
  for (const mode_t mode : {0604u, 0602u, 0644u, 0666u}) {
    const TokenFile file(line("a", kPlain), mode);
    const auto tokens = read_token_file(file.path());
    REQUIRE_FALSE(tokens);
    CHECK(tokens.error().find("chmod 600") != std::string::npos);
  }
  for (const mode_t mode : {0600u, 0640u, 0400u}) {
    const TokenFile file(line("a", kPlain), mode);
    CHECK(read_token_file(file.path()));
  }
  CHECK_FALSE(read_token_file("/nowhere/tokens"));
  CHECK_FALSE(read_token_file("/tmp"));
  const TokenFile large(std::string(kMaxTokenFileBytes + 1, '#'));
  CHECK(read_token_file(large.path()).error().find("larger") != std::string::npos);
}

TEST_CASE("who is refused is told how a token is shown") {
  const std::string refusal(Access(tokens_of(line("a", kPlain))).refusal());
  CHECK(refusal.find("PAIL_TOKEN") != std::string::npos);
  CHECK(refusal.find("--token-file") != std::string::npos);
  CHECK(refusal.size() <= protocol::kMaxErrorTextBytes);
}

TEST_CASE("a token is known as a whole or not at all") {
  const Access access(tokens_of(line("a", kPlain) + line("b", kAdmin, true)));
  CHECK(access.admit(kPlain, false).is_admitted);
  CHECK_FALSE(access.admit(kPlain, true).is_admin);  // being local does not help
  CHECK(access.admit(kAdmin, false).is_admin);
  const std::string token = kPlain;
  for (std::size_t i = 0; i < token.size(); ++i) {
    CHECK_FALSE(access.admit(token.substr(0, i), true).is_admitted);
    std::string near = token;
    near[i] = static_cast<char>(near[i] ^ 1);
    CHECK_FALSE(access.admit(near, true).is_admitted);
  }
  CHECK_FALSE(access.admit(token + "x", true).is_admitted);
  CHECK_FALSE(access.admit(token + std::string(1, '\0'), true).is_admitted);
  CHECK_FALSE(access.admit("a", true).is_admitted);  // the name is no token
}

TEST_CASE("without tokens everybody is admitted, and who is local is an administrator") {
  const Access access(std::nullopt);
  CHECK(access.admit("", true).is_admin);
  CHECK(access.admit("", false).is_admitted);
  CHECK_FALSE(access.admit("", false).is_admin);
}

Status answer_to_hello(RawClient& client) {
  const auto answer = client.frame();
  REQUIRE(answer);
  const auto reply = protocol::decode_hello_reply(*answer);
  REQUIRE(reply);
  CHECK(reply->error.empty() == (reply->status == Status::ok));
  return reply->status;
}

Status hello_status(RawClient& client, std::string_view token) {
  REQUIRE(client.send(hello_bytes("access-test", token)));
  return answer_to_hello(client);
}

Status reset_status(RawClient& client) {
  protocol::Request reset = slow_take(5, "alice", 3);
  reset.op = protocol::Op::reset;
  reset.cost = 0;
  REQUIRE(client.send(request_bytes(reset)));
  const auto reply = client.reply();
  REQUIRE(reply);
  CHECK(reply->tag == 5);
  return reply->status;
}

server::Config guarded_config(server::IoChoice io) {
  auto config = local_config(io);
  config.tokens = tokens_of(line("a", kPlain) + line("b", kAdmin, true));
  return config;
}

TEST_CASE("no token, a wrong token: unauthorized, closed, and nothing behind it is looked at") {
  for (const auto io : kBackends) {
    TestServer server(guarded_config(io));
    const Octets take = request_bytes(slow_take(1, "alice", 3));
    for (const std::string token : {"", "wrong-token-0123456789", "plain-token-012345678"}) {
      RawClient client = server.connect();
      REQUIRE(client.send(joined(hello_bytes("stranger", token), take)));
      CHECK(answer_to_hello(client) == Status::unauthorized);
      CHECK(client.wait_for_end());
    }
    CHECK(server->count(frontend::NativeCount::unauthorized_hello) == 3);
    CHECK(server->count(frontend::NativeCount::frames) == 0);
    RawClient client = server.connect();
    REQUIRE(hello_status(client, kPlain) == Status::ok);
    REQUIRE(client.send(take));
    const auto reply = client.reply();
    REQUIRE(reply);
    CHECK(reply->remaining == 2);
  }
}

TEST_CASE("RESET needs a token that administers; STATS and takes do not") {
  for (const auto io : kBackends) {
    TestServer server(guarded_config(io));
    RawClient plain = server.connect();
    REQUIRE(hello_status(plain, kPlain) == Status::ok);
    CHECK(reset_status(plain) == Status::unauthorized);
    protocol::Request stats;
    stats.op = protocol::Op::stats;
    stats.tag = 6;
    REQUIRE(plain.send(request_bytes(stats)));
    const auto reply = plain.reply();
    REQUIRE(reply);
    CHECK(reply->status == Status::ok);
    RawClient admin = server.connect();
    REQUIRE(hello_status(admin, kAdmin) == Status::ok);
    CHECK(reset_status(admin) == Status::ok);
    TestServer open(local_config(io));
    RawClient anybody = open.greeted();
    CHECK(reset_status(anybody) == Status::ok);
  }
}

TEST_CASE("rotation: both tokens for a while, then whoever holds the old one is let go") {
  for (const auto io : kBackends) {
    TestServer server(guarded_config(io));
    RawClient old_client = server.connect();
    RawClient admin = server.connect();
    REQUIRE(hello_status(old_client, kPlain) == Status::ok);
    REQUIRE(hello_status(admin, kAdmin) == Status::ok);

    server->replace_tokens(
        tokens_of(line("a", kPlain) + line("c", kOther) + line("b", kAdmin, true)));
    RawClient new_client = server.connect();
    REQUIRE(hello_status(new_client, kOther) == Status::ok);
    CHECK(reset_status(old_client) == Status::unauthorized);  // still served

    server->replace_tokens(tokens_of(line("c", kOther) + line("b", kAdmin)));
    const auto notice = old_client.reply();
    REQUIRE(notice);
    CHECK(notice->op == protocol::Op::goaway);
    CHECK(notice->tag == 0);
    CHECK(notice->status == Status::unauthorized);
    CHECK(old_client.wait_for_end());
    CHECK(reset_status(new_client) == Status::unauthorized);
    // The administrator is one no more. The change reaches its shard before its next request does:
    // the goodbye to the old client says so.
    CHECK(reset_status(admin) == Status::unauthorized);
    RawClient late = server.connect();
    CHECK(hello_status(late, kPlain) == Status::unauthorized);
  }
}

TEST_CASE("HELLO byte by byte ends at its deadline, however busily the bytes drip") {
  for (const auto io : kBackends) {
    auto config = guarded_config(io);
    config.limits.hello_timeout_ms = 100;
    config.limits.tick_ms = 10;
    TestServer server(config);
    RawClient slow = server.connect();
    const Octets hello = hello_bytes(std::string(64, 'n'), std::string(256, 't'));
    std::size_t sent = 0;
    while (server->count(ShardCount::hello_timeouts) == 0 && sent + 1 < hello.size()) {
      slow.send_some(protocol::Bytes(hello).subspan(sent++, 1));
      pollfd hung_up{slow.descriptor(), POLLIN, 0};
      if (::poll(&hung_up, 1, 10) == 1) break;
    }
    CHECK(sent + 1 < hello.size());
    CHECK(slow.wait_for_end());
    CHECK(server->count(ShardCount::hello_timeouts) == 1);
  }
}

TEST_CASE("paild: a token file lets it listen elsewhere, and SIGHUP reads it again") {
  for (const char* io : {"auto", "epoll"}) {
    const TokenFile file(line("a", kPlain));
    const std::string ready = "/tmp/pail-access-test." + std::to_string(::getpid()) + ".json";
    ::unlink(ready.c_str());
    Process paild({"--listen", "127.0.0.1:0", "--token-file", file.path(), "--ready-file", ready,
                   "--io", io, "--shards", "1"});
    REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
    const std::string address = between(Process::contents(ready), "[\"", "\"]");
    ::unlink(ready.c_str());
    RawClient first(address);
    CHECK(hello_status(first, kPlain) == Status::ok);

    file.write(line("c", "short"));
    paild.signal(SIGHUP);
    REQUIRE(eventually(
        [&] { return paild.output().find("the old tokens stay") != std::string::npos; }));
    RawClient second(address);
    CHECK(hello_status(second, kPlain) == Status::ok);

    file.write(line("c", kOther));
    paild.signal(SIGHUP);
    CHECK(first.wait_for_end());
    RawClient third(address);
    CHECK(hello_status(third, kOther) == Status::ok);
    RawClient fourth(address);
    CHECK(hello_status(fourth, kPlain) == Status::unauthorized);
    REQUIRE(eventually(
        [&] { return paild.output().find("token missing or unknown") != std::string::npos; }));
    paild.signal(SIGTERM);
    CHECK(paild.exit_code() == 0);
    CHECK(paild.output().find("no longer valid") != std::string::npos);
    CHECK(paild.output().find("0123456789") == std::string::npos);
  }
}

TEST_CASE("paild without tokens survives SIGHUP") {
  const std::string ready = "/tmp/pail-access-test." + std::to_string(::getpid()) + ".json";
  ::unlink(ready.c_str());
  Process paild({"--listen", "127.0.0.1:0", "--shards", "1", "--ready-file", ready});
  REQUIRE(eventually([&] { return ::access(ready.c_str(), F_OK) == 0; }));
  ::unlink(ready.c_str());
  paild.signal(SIGHUP);
  CHECK(eventually([&] { return paild.output().find("nothing to reload") != std::string::npos; }));
  paild.signal(SIGTERM);
  CHECK(paild.exit_code() == 0);
}

}  // namespace
}  // namespace pail::test
