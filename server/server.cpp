#include "server/server.hpp"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <exception>
#include <future>
#include <new>
#include <system_error>

#include "server/cpus.hpp"
#include "server/policy/write.hpp"

namespace pail::server {
namespace {

// io_uring where it can be had; what the operator asked for, or why not.
tl::expected<IoDecision, std::string> decide_io(IoChoice choice) {
  if (choice == IoChoice::epoll) return IoDecision{io::Kind::epoll, "asked for by --io epoll"};
  const auto probed = io::probe_uring();
  if (probed) {
    return IoDecision{io::Kind::uring, choice == IoChoice::uring ? "asked for by --io uring"
                                                                 : "this kernel allows it"};
  }
  if (choice == IoChoice::uring) return tl::unexpected("--io uring: " + probed.error().text);
  return IoDecision{io::Kind::epoll, "no io_uring: " + probed.error().text};
}

engine::Options engine_options(const Config& config, const Clock& clock) {
  engine::Options options;
  options.memory_limit_bytes = config.memory_bytes;
  options.on_full = config.on_full;
  options.policies = config.policies;
  options.overrides = config.overrides;
  options.unknown_policy = policy::to_engine(config.unknown);
  options.counter_life_ns = config.counter_life_ns;
  options.utc_epoch_ns = clock.utc_epoch_ns();
  return options;
}

// Whoever fills in a Config by hand may have left out where its policies come from.
std::vector<policy::Definition> definitions_of(const Config& config) {
  if (!config.definitions.empty() || config.policies.empty()) return config.definitions;
  std::vector<policy::Definition> definitions;
  for (const engine::PolicySpec& spec : config.policies) {
    definitions.push_back(policy::definition_of(spec));
  }
  return definitions;
}

// Tells clients that the memory of a server started empty: never the same twice.
std::uint64_t random_boot_id() {
  std::uint64_t id = 0;
  if (::getrandom(&id, sizeof id, 0) != sizeof id) id = 0;
  return id | 1;
}

using Prepared = tl::expected<void, io::IoError>;

Prepared out_of_memory() {
  return tl::unexpected(
      io::IoError{ENOMEM,
                  "not enough memory for a shard's connections and buffers (fewer --shards, or "
                  "less of --max-connections)"});
}

// On the shard's thread, where nobody above it could catch what is thrown. What it says if memory
// is short is made before it is: then there may be none for a text either.
Prepared prepare(Shard& shard, int cpu, Prepared without_memory) noexcept {
  try {
    // Before the shard, so that its memory is near its core.
    if (cpu >= 0 && !pin_to(static_cast<unsigned>(cpu))) {
      return tl::unexpected(
          io::IoError{errno, "--pin: the kernel refuses core " + std::to_string(cpu)});
    }
    return shard.prepare();
  } catch (const std::bad_alloc&) {
    return without_memory;
  }
}

}  // namespace

tl::expected<std::unique_ptr<Server>, std::string> Server::start(const Config& config) {
  try {
    std::unique_ptr<Server> server(new Server(config));
    auto io = decide_io(config.io);
    if (!io) return tl::unexpected(io.error());
    server->io_ = *io;
    if (auto result = server->open_listeners(config); !result) {
      return tl::unexpected(result.error());
    }
    if (auto result = server->run_shards(config); !result) return tl::unexpected(result.error());
    return server;
  } catch (const std::bad_alloc&) {
    return tl::unexpected(std::string("not enough memory to start"));
  } catch (const std::exception& error) {
    return tl::unexpected(std::string(error.what()));
  }
}

Server::Server(const Config& config)
    : access_(config.tokens),
      engine_(engine_options(config, clock_)),
      policies_(
          config.file, definitions_of(config), config.flag_definitions,
          [this](const policy::PolicyList& list) {
            return engine_.replace_policies(list.policies, list.overrides, list.unknown);
          },
          [] { return static_cast<std::int64_t>(std::time(nullptr)); }, config.unknown,
          config.is_unknown_of_flag) {}

Server::~Server() {
  stop();
  for (std::thread& thread : threads_) thread.join();
}

namespace {

std::string text_of(const io::IoError& error, std::string_view flag) {
  if (error.code != EADDRINUSE) return error.text;
  return fmt::format("{}: does another server run? {}", error.text, flag);
}

}  // namespace

tl::expected<void, std::string> Server::open_listeners(const Config& config) {
  io::ListenOptions options;
  options.congestion_control = config.congestion_control;
  options.non_blocking = io_.kind == io::Kind::epoll;
  options.receive_buffer_bytes = static_cast<int>(config.limits.receive_buffer_bytes);
  options.patience_ms = kListenPatienceMs;
  for (const protocol::Address& address : config.listen) {
    auto listener = io::Listener::open(address, config.shards, options);
    if (!listener) return tl::unexpected(text_of(listener.error(), "Give --listen ADDR."));
    listeners_.push_back({std::move(*listener), Protocol::native});
  }
  if (config.is_resp_by_default) options.patience_ms = 0;
  for (const protocol::Address& address : config.resp) {
    auto listener = io::Listener::open(address, config.shards, options);
    if (listener) {
      listeners_.push_back({std::move(*listener), Protocol::resp});
    } else if (config.is_resp_by_default) {
      resp_fault_ = listener.error().text;
    } else {
      return tl::unexpected(
          text_of(listener.error(), "Give --resp ADDR for Redis clients, or --resp none."));
    }
  }
  return {};
}

// Each thread prepares its shard; only when all have is any of them let loose, since they hand each
// other sockets from the first one on.
tl::expected<void, std::string> Server::run_shards(const Config& config) {
  ShardOptions options;
  options.kind = io_.kind;
  options.limits = config.limits;
  options.identity.boot_id = random_boot_id();
  options.services.stats = this;
  options.services.gate = &access_;
  options.services.desk = &desk_;
  const auto is_loopback = [](const auto& address) { return address.is_loopback; };
  options.is_local_only = std::ranges::all_of(config.listen, is_loopback) &&
                          std::ranges::all_of(config.resp, is_loopback);
  for (unsigned i = 0; i < config.shards; ++i) {
    // What is asked for, and not one more: the first shards have the remainder.
    if (const std::uint32_t all = config.max_connections; all != 0) {
      options.limits.max_connections = all / config.shards + (i < all % config.shards ? 1 : 0);
    }
    options.listeners.clear();
    options.index = i;
    for (const Listening& listening : listeners_) {
      options.listeners.push_back({listening.listener.descriptor(i), listening.protocol});
    }
    shards_.push_back(std::make_unique<Shard>(engine_, clock_, options));
  }

  std::vector<std::future<Prepared>> prepared;
  prepared.reserve(shards_.size());
  threads_.reserve(shards_.size());
  std::promise<bool> go;
  const std::shared_future<bool> all_prepared = go.get_future().share();
  Prepared result;
  Prepared without_memory = out_of_memory();
  std::error_code no_thread;
  try {
    for (const auto& shard : shards_) {
      std::promise<Prepared> promise;
      std::future<Prepared> future = promise.get_future();
      const int cpu = config.pinned.empty()
                          ? -1
                          : static_cast<int>(config.pinned[threads_.size() % config.pinned.size()]);
      threads_.emplace_back([this, &shard, all_prepared, cpu, promise = std::move(promise),
                             text = out_of_memory()]() mutable {
        promise.set_value(prepare(*shard, cpu, std::move(text)));
        if (all_prepared.get()) shard->run(shards_);
        const std::lock_guard lock(mutex_);
        ++finished_;
        finished_changed_.notify_all();
      });
      prepared.push_back(std::move(future));
    }
  } catch (const std::system_error& error) {
    no_thread = error.code();
  } catch (const std::bad_alloc&) {
    result = std::move(without_memory);
  }
  const std::size_t started = threads_.size();  // and all of them wait for `go`
  for (auto& future : prepared) {
    if (Prepared one = future.get(); !one) result = std::move(one);
  }
  const bool is_ready = result && !no_thread;
  go.set_value(is_ready);
  if (is_ready) return {};
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  shards_.clear();
  if (result && no_thread) {
    return tl::unexpected(
        fmt::format("cannot start the thread of shard {}: {} (fewer --shards, or ulimit -u)",
                    started, no_thread.message()));
  }
  return tl::unexpected(result.error().text);
}

std::vector<std::string> Server::addresses(Protocol protocol) const {
  std::vector<std::string> texts;
  for (const Listening& listening : listeners_) {
    if (listening.protocol == protocol) texts.push_back(listening.listener.address().text);
  }
  return texts;
}

void Server::replace_tokens(Tokens tokens) noexcept {
  access_.replace(std::move(tokens));
  for (const auto& shard : shards_) shard->renew_permissions();
}

bool Server::check_pulse() {
  bool is_alive = true;
  pulses_.resize(shards_.size(), ~std::uint64_t{0});
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const std::uint64_t turns = shards_[i]->metrics().shard.read(ShardCount::turns);
    if (turns == pulses_[i]) is_alive = false;
    pulses_[i] = turns;
    shards_[i]->poke();
  }
  return is_alive;
}

void Server::stop() noexcept {
  for (const auto& shard : shards_) shard->stop();
}

bool Server::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return finished_changed_.wait_for(lock, patience,
                                    [this] { return finished_ == threads_.size(); });
}

std::uint64_t Server::count(ShardCount name) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->metrics().shard.read(name);
  return sum;
}

std::uint64_t Server::count(frontend::NativeCount name) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->metrics().native.read(name);
  return sum;
}

std::uint64_t Server::count(frontend::RespCount name) const noexcept {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->metrics().resp.read(name);
  return sum;
}

FaultTotals Server::fault_totals() const noexcept {
  FaultTotals totals{};
  const auto set = [&](Fault fault, std::uint64_t n) {
    totals[static_cast<std::size_t>(fault)] = n;
  };
  set(Fault::refused_hello, count(frontend::NativeCount::refused_hello));
  using frontend::RespCount;
  set(Fault::unauthorized,
      count(frontend::NativeCount::unauthorized_hello) + count(RespCount::unauthorized));
  set(Fault::malformed, count(frontend::NativeCount::malformed) + count(RespCount::malformed));
  set(Fault::hello_timeout, count(ShardCount::hello_timeouts));
  set(Fault::stuck_peer, count(ShardCount::stuck_timeouts));
  set(Fault::receive_error, count(ShardCount::receive_errors));
  set(Fault::send_error, count(ShardCount::send_errors));
  set(Fault::accept_error, count(ShardCount::accept_errors));
  set(Fault::too_many_connections, count(ShardCount::refused_full));
  set(Fault::no_reply_memory, count(ShardCount::reply_memory_out) + count(ShardCount::hoarders));
  set(Fault::table_full, engine_.table_stats().refused_keys);
  set(Fault::overloaded, count(protocol::Status::overloaded) + count(RespCount::overloaded));
  set(Fault::completion_overflow, count(ShardCount::completion_overflows));
  return totals;
}

std::optional<FaultNote> Server::take_note(Fault fault) noexcept {
  for (const auto& shard : shards_) {
    if (auto note = shard->fault_notes().take(fault)) return note;
  }
  return std::nullopt;
}

std::uint32_t Server::connections() const noexcept {
  std::uint32_t sum = 0;
  for (const auto& shard : shards_) sum += shard->load();
  return sum;
}

}  // namespace pail::server
