// Concern: every command line gets either what it asks for or a text that says what is wrong.
#include <doctest/doctest.h>

#include <unistd.h>

#include <fstream>
#include <map>
#include <vector>

#include "server/config.hpp"
#include "server/cpus.hpp"
#include "server/memory.hpp"

namespace pail::server {
namespace {

tl::expected<Config, ConfigExit> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "paild");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

TEST_CASE("the defaults") {
  const auto config = parse({});
  REQUIRE(config);
  REQUIRE(config->listen.size() == 1);
  CHECK(config->listen[0].text == "127.0.0.1:7245");
  REQUIRE(config->resp.size() == 1);
  CHECK(config->resp[0].text == "127.0.0.1:7246");
  CHECK_FALSE(config->is_resp_by_default);
  CHECK(config->shards == usable_cpus());
  CHECK(config->policies.empty());
  CHECK(config->io == IoChoice::automatic);
}

TEST_CASE("everything at once") {
  const auto config = parse({"--listen",         "127.0.0.1:0", "--listen",
                             "unix:/tmp/x.sock", "--shards",    "3",
                             "--memory",         "64MiB",       "--policy",
                             "partner=10/s,20",  "--policy",    "free=1/min,5",
                             "--tcp-congestion", "cubic",       "--ready-file",
                             "/tmp/ready",       "--io",        "uring",
                             "--log-format",     "json",        "--log-level",
                             "warning",          "--on-full",   "admit"});
  REQUIRE(config);
  CHECK(config->listen.size() == 2);
  CHECK(config->shards == 3);
  CHECK(config->memory_bytes == std::size_t{64} << 20);
  CHECK(config->on_full == engine::OnFull::admit);
  REQUIRE(config->policies.size() == 2);
  CHECK(config->policies[0].name == "partner");
  CHECK(config->policies[0].id == protocol::policy_id("partner"));
  CHECK(config->policies[0].rate == engine::Rate{1'000'000'000, 10, 20});
  CHECK(config->congestion_control == "cubic");
  CHECK(config->ready_file == "/tmp/ready");
  CHECK(config->io == IoChoice::uring);
  CHECK(config->log.format == LogFormat::json);
  CHECK(config->log.level == LogLevel::warning);
}

TEST_CASE("where RESP is spoken") {
  const auto several = parse({"--resp", "127.0.0.1:0", "--resp", "unix:/tmp/r.sock"});
  REQUIRE(several);
  CHECK(several->resp.size() == 2);
  CHECK_FALSE(several->is_resp_by_default);
  const auto none = parse({"--resp", "none"});
  REQUIRE(none);
  CHECK(none->resp.empty());
  const auto other = parse({"--listen", "127.0.0.1:0"});
  REQUIRE(other);
  REQUIRE(other->resp.size() == 1);
  CHECK(other->resp[0].text == "127.0.0.1:7246");
  CHECK(other->is_resp_by_default);
  const auto reachable = parse({"--resp", "0.0.0.0:0"});
  REQUIRE_FALSE(reachable);
  CHECK(reachable.error().text.find("--resp 0.0.0.0:0: this address can be reached") !=
        std::string::npos);
  CHECK(parse({"--resp", "0.0.0.0:0", "--insecure"}));
  CHECK_FALSE(parse({"--resp", "nonsense"}));
}

TEST_CASE("limits are of the whole server, and shared out to the shards") {
  const auto config = parse({"--shards", "4", "--max-connections", "10", "--reply-memory", "80",
                             "--hello-timeout", "2", "--stuck-timeout", "1", "--idle-timeout", "60",
                             "--long-turn", "700", "--busy-poll", "50"});
  REQUIRE(config);
  CHECK(config->max_connections == 10);
  CHECK(config->limits.reply_memory_bytes == 20 * 1024 * 1024);
  CHECK(config->limits.hello_timeout_ms == 2'000);
  CHECK(config->limits.stuck_timeout_ms == 1'000);
  CHECK(config->limits.hoarding_timeout_ms <= config->limits.stuck_timeout_ms);
  CHECK(config->limits.idle_timeout_ms == 60'000);
  CHECK(config->limits.long_turn_us == 700);
  CHECK(config->limits.busy_poll_us == 50);
}

TEST_CASE("a memory limit bounds the table where nobody said") {
  CHECK(bytes_within_limit(1000, "max") == 1000);
  CHECK(bytes_within_limit(1000, "") == 1000);
  CHECK(bytes_within_limit(1000, "600") == 600);
  CHECK(bytes_within_limit(1000, "9223372036854771712") == 1000);
  CHECK(default_table_bytes() >= kMinTableBytes);
}

TEST_CASE("what is wrong is said") {
  struct {
    std::vector<const char*> arguments;
    const char* text;
  } const cases[] = {
      {{"--listen", "nonsense:xyz"}, "--listen nonsense:xyz"},
      {{"--listen", "0.0.0.0:7245"}, "--insecure"},
      {{"--listen", "192.0.2.1:7245"}, "--insecure"},
      {{"--shards", "0"}, "--shards"},
      {{"--shards", "2", "--reply-memory", "20"}, "--reply-memory 20: 34 MiB at least"},
      {{"--max-connections", "0"}, "--max-connections"},
      {{"--shards", "4", "--max-connections", "3"}, "--max-connections 3: one a shard"},
      {{"--idle-timeout", "soon"}, "--idle-timeout"},
      {{"--token-file", ""}, "--token-file: the value is empty"},
      {{"--ready-file", ""}, "--ready-file: the value is empty"},
      {{"--listen", ""}, "--listen: the value is empty"},
      {{"--shards", "65"}, "--shards"},
      {{"--memory", "15MiB"}, "--memory"},
      {{"--memory", "much"}, "--memory"},
      {{"--on-full", "evict"}, "--on-full"},
      {{"--policy", "noequals"}, "--policy noequals"},
      {{"--policy", "a=1/366d,5"}, "too long"},
      {{"--policy", "a=1/s,1", "--policy", "a=2/s,1"}, "a"},
      {{"--io", "kqueue"}, "--io"},
      {{"--unknown"}, "--unknown"},
      {{"--log-format", "xml"}, "--log-format"},
      {{"--log-level", "loud"}, "--log-level"},
      {{"extra"}, "extra"},
  };
  for (const auto& wrong : cases) {
    const auto config = parse(wrong.arguments);
    CAPTURE(wrong.text);
    REQUIRE_FALSE(config);
    CHECK(config.error().code == 2);
    CHECK(config.error().text.find(wrong.text) != std::string::npos);
    CHECK(config.error().text.find("paild: ") == 0);
  }
}

// A file of this process, gone with it.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : path_("/tmp/pail-config-test." + std::to_string(::getpid()) + ".toml") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { ::unlink(path_.c_str()); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  [[nodiscard]] const char* path() const noexcept { return path_.c_str(); }

 private:
  std::string path_;
};

tl::expected<Config, ConfigExit> parse_in(const std::map<std::string, std::string>& variables,
                                          std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "paild");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data(),
                            [&variables](const std::string& name) {
                              const auto found = variables.find(name);
                              return found == variables.end() ? nullptr : found->second.c_str();
                            });
}

TEST_CASE("flags go before the environment, that before the file, and that before the defaults") {
  const ConfigFile file(
      "[server]\nshards = 2\nmemory = \"32MiB\"\nlong_turn = 3\npin = true\n"
      "listen = [\"127.0.0.1:0\", \"unix:/tmp/a\"]\n");
  const auto all = parse_in({{"PAIL_SHARDS", "3"}, {"PAIL_MEMORY", "48MiB"}},
                            {"--config", file.path(), "--shards", "4"});
  REQUIRE(all);
  CHECK(all->shards == 4);
  CHECK(all->memory_bytes == std::size_t{48} << 20);
  CHECK(all->limits.long_turn_us == 3);
  CHECK(all->listen.size() == 2);
  CHECK_FALSE(all->pinned.empty());
  CHECK(all->counter_life_ns == Config{}.counter_life_ns);
  const auto named = parse_in({{"PAIL_CONFIG", file.path()}, {"PAIL_PIN", "false"}}, {});
  REQUIRE(named);
  CHECK(named->shards == 2);
  CHECK(named->memory_bytes == std::size_t{32} << 20);
}

TEST_CASE("mistakes in the environment and in the file are named where they are") {
  const auto environment = parse_in({{"PAIL_SHARDS", "many"}}, {});
  REQUIRE_FALSE(environment);
  CHECK(environment.error().text.find("PAIL_SHARDS=many in the environment") != std::string::npos);
  CHECK_FALSE(parse_in({{"PAIL_INSECURE", "yes"}}, {}));
  CHECK_FALSE(parse_in({{"PAIL_LISTEN", ""}}, {}));

  struct {
    const char* text;
    const char* says;
  } const cases[] = {
      {"[server]\nshards = 100\n", ":2: [server]: shards = 100: Value 100 not in range 1 to 64"},
      {"[server]\n\nmemroy = 5\n",
       ":3: [server]: \"memroy\" is no key of it: is \"memory\" meant?"},
      {"[server]\nshards = [1, 2]\n", ":2: [server]: shards = 1, 2: it has one value"},
      {"[server]\npin = 1\n", ":2: [server]: pin = 1: it is true or false"},
      {"[server]\nlisten = []\n", ":2: [server]: listen = : it is empty"},
      {"[server]\non_full = \"evict\"\n", ":2: [server]: on_full = evict: "},
      {"[server]\npolicy = \"a=1/s,1\"\n", ":2: [server]: \"policy\" is no key of it"},
      {"[server]\nconfig = \"x\"\n", ":2: [server]: \"config\" is no key of it"},
      {"[[policy]]\n", ":1: a policy: it has no name"},
  };
  for (const auto& wrong : cases) {
    const ConfigFile file(wrong.text);
    const auto config = parse({"--config", file.path()});
    CAPTURE(std::string(wrong.text));
    REQUIRE_FALSE(config);
    CHECK(config.error().code == 2);
    CAPTURE(config.error().text);
    CHECK(config.error().text.find(std::string(file.path()) + wrong.says) == 0);
  }
  CHECK_FALSE(parse({"--config", "/nonexistent"}));
}

TEST_CASE("policies of the file, and those of flags above them") {
  const ConfigFile file(
      "[[policy]]\nname = \"a\"\nrate = \"1/s\"\n[[policy.tier]]\nname = \"big\"\nrate = "
      "\"9/s\"\n[[policy]]\nname = \"b\"\nrate = \"2/s\"\n");
  const auto config =
      parse({"--config", file.path(), "--policy", "b=5/s,5", "--policy", "c=1/s,1"});
  REQUIRE(config);
  REQUIRE(config->policies.size() == 4);
  CHECK(config->policies[1].name == "a/big");
  CHECK(config->policies[2].name == "b");
  CHECK(config->policies[2].rate.count == 5);
  // A policy of a flag that is called as a tier of the file.
  CHECK_FALSE(parse({"--config", file.path(), "--policy", "a/big=5/s,5"}));
}

TEST_CASE("checking a file prints what would be in force, and does not serve") {
  const ConfigFile file("[[policy]]\nname = \"a\"\nrate = \"2000000000/s\"\nburst = 7\n");
  const auto good = parse({"--check-config", file.path()});
  REQUIRE_FALSE(good);
  CHECK(good.error().code == 0);
  CHECK(good.error().text.find("burst = 7\n") != std::string::npos);
  CHECK(good.error().text.find("less than asked") == std::string::npos);
  CHECK(good.error().text.find("no mistakes; 1 policies") != std::string::npos);
  const ConfigFile bad("[[policy]]\n");
  const auto mistake = parse({"--check-config", bad.path()});
  REQUIRE_FALSE(mistake);
  CHECK(mistake.error().code == 2);
  CHECK_FALSE(parse({"--config", bad.path(), "--check-config", bad.path()}));
}

TEST_CASE("asking is not an error") {
  for (const char* flag : {"--help", "--version"}) {
    const auto config = parse({flag});
    REQUIRE_FALSE(config);
    CHECK(config.error().code == 0);
    CHECK(config.error().text.find("paild") != std::string::npos);
  }
  CHECK(parse({"--insecure", "--listen", "0.0.0.0:7245"}));
}

TEST_CASE("the limits of cgroups, of both versions, of our group and those above it") {
  using Files = std::map<std::string, std::string>;
  const auto within = [](const std::string& own_groups, const Files& files) {
    return cpus_within_cgroups(8, own_groups, [&files](const std::string& path) {
      const auto found = files.find(path);
      return found == files.end() ? std::string() : found->second;
    });
  };
  CHECK(within("", {}) == 8);
  CHECK(within("garbage\n:\n::\n0::\n", {}) == 8);
  CHECK(within("0::/\n", {{"/sys/fs/cgroup/cpu.max", "300000 100000\n"}}) == 3);
  CHECK(within("0::/a/b\n", {{"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"},
                             {"/sys/fs/cgroup/a/cpu.max", "200000 100000\n"}}) == 2);
  CHECK(within("0::/a/b\n", {{"/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"},
                             {"/sys/fs/cgroup/a/cpu.max", "600000 100000\n"}}) == 4);
  const char* const kOld = "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/docker/1\n";
  CHECK(within(kOld, {{"/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "250000\n"},
                      {"/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n"}}) == 2);
  CHECK(within(kOld, {{"/sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n"},
                      {"/sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n"}}) == 8);
  // Seen from within the container only the mount itself is there.
  CHECK(within(kOld, {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"},
                      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}) == 1);
  CHECK(within("4:cpuset:/x\n", {{"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n"},
                                 {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"}}) == 8);
}

TEST_CASE("pinning uses the cores that this process may use") {
  const auto config = parse({"--pin"});
  REQUIRE(config);
  CHECK(config->pinned == allowed_cpus());
  CHECK_FALSE(config->pinned.empty());
  CHECK(usable_cpus() <= config->pinned.size());
  CHECK(parse({})->pinned.empty());
}

TEST_CASE("a CPU quota bounds the number of shards") {
  CHECK(cpus_within_quota(8, "max 100000") == 8);
  CHECK(cpus_within_quota(8, "") == 8);
  CHECK(cpus_within_quota(8, "200000 100000") == 2);
  CHECK(cpus_within_quota(8, "150000 100000") == 1);
  CHECK(cpus_within_quota(8, "50000 100000") == 1);
  CHECK(cpus_within_quota(2, "1600000 100000") == 2);
  CHECK(cpus_within_quota(2, "garbage") == 2);
}

}  // namespace
}  // namespace pail::server
