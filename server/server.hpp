// The whole server in one process: listeners, one engine, and shards that serve on it.
//
//   auto server = Server::start(config);     // serves when this returns
//   (*server)->stop();                       // any thread: accept no more, answer, close
//   (*server)->wait(5s);
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "server/access.hpp"
#include "server/clock.hpp"
#include "server/config.hpp"
#include "server/engine/engine.hpp"
#include "server/io/listener.hpp"
#include "server/journal.hpp"
#include "server/policy_desk.hpp"
#include "server/shard.hpp"

namespace pail::server {

// Which backend, and why.
struct IoDecision {
  io::Kind kind = io::Kind::uring;
  std::string reason;
};

class Server final : public frontend::StatsSource {
 public:
  [[nodiscard]] static tl::expected<std::unique_ptr<Server>, std::string> start(
      const Config& config);
  ~Server() override;  // stops and waits, however long it takes
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] std::vector<std::string> addresses(Protocol protocol = Protocol::native) const;
  // Why there is no RESP listener although none was asked for or against; empty: there is.
  [[nodiscard]] const std::string& resp_fault() const noexcept { return resp_fault_; }
  [[nodiscard]] const IoDecision& io() const noexcept { return io_; }
  [[nodiscard]] std::size_t shard_count() const noexcept override { return shards_.size(); }

  // Any thread. Connections whose token is gone are told so and closed. Only where there was a
  // token file from the start.
  void replace_tokens(Tokens tokens) noexcept;

  // Any thread: what is in force, and how it is changed.
  [[nodiscard]] policy::Store& policies() noexcept { return policies_; }
  [[nodiscard]] const policy::Store& policies() const noexcept { return policies_; }

  void stop() noexcept;
  // Whether every shard has taken a turn since the last call, or was not asked before. Asks all for
  // one. To be called by one thread, at intervals that a turn cannot need.
  [[nodiscard]] bool check_pulse();
  // Whether all shards have finished within that time.
  [[nodiscard]] bool wait(std::chrono::milliseconds patience);

  // For STATS: the server's own numbers, then the shards'.
  [[nodiscard]] std::size_t stat_count() const noexcept override;
  [[nodiscard]] protocol::Stat stat(std::size_t index, std::size_t shard) const noexcept override;

  // For the log: how often each fault has happened, and an example of it if there is a new one.
  [[nodiscard]] FaultTotals fault_totals() const noexcept;
  [[nodiscard]] std::optional<FaultNote> take_note(Fault fault) noexcept;

  // Sums over the shards.
  [[nodiscard]] std::uint64_t count(ShardCount name) const noexcept;
  [[nodiscard]] std::uint64_t count(frontend::NativeCount name) const noexcept;
  [[nodiscard]] std::uint64_t count(frontend::RespCount name) const noexcept;
  [[nodiscard]] std::uint64_t count(protocol::Status status) const noexcept {
    return count(frontend::count_of(status));
  }
  [[nodiscard]] std::uint32_t connections() const noexcept;
  [[nodiscard]] std::uint32_t connections_of(std::size_t shard) const noexcept {
    return shards_[shard]->load();
  }

 private:
  explicit Server(const Config& config);
  [[nodiscard]] tl::expected<void, std::string> open_listeners(const Config& config);
  [[nodiscard]] tl::expected<void, std::string> run_shards(const Config& config);

  Clock clock_;
  Access access_;
  engine::Engine engine_;
  policy::Store policies_;
  StoreDesk desk_{policies_, &engine_};
  IoDecision io_;
  struct Listening {
    io::Listener listener;
    Protocol protocol;
  };
  std::vector<Listening> listeners_;
  std::string resp_fault_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::thread> threads_;
  std::vector<std::uint64_t> pulses_;  // turns of each shard when it was asked; of one caller
  std::mutex mutex_;
  std::condition_variable finished_changed_;
  std::size_t finished_ = 0;  // threads; under mutex_
};

}  // namespace pail::server
