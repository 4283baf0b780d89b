// The inside of a world: the scheduler (scheduler.cpp), and the threads' operations on the table
// beside the ghost that says what a table of one place would hold (operations.cpp). Only for those
// two.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/engine/table.hpp"
#include "tests/model/arena.hpp"
#include "tests/model/choices.hpp"
#include "tests/model/fiber.hpp"
#include "tests/model/traits.hpp"
#include "tests/model/world.hpp"

namespace pail::model {

using Table = engine::Table<Traits>;

// A decision that was made and waits for its compare_exchange.
struct Pending {
  enum class Kind : std::uint8_t { take, reset, refund };
  Kind kind = Kind::take;
  unsigned key = 0;
  Word base = 0;  // max(word, now), as decided on
  Ticks now = 0;
  Word next = 0;
};

struct Thread {
  // Of one run; plain values, restored at its begin.
  struct State {
    std::optional<Pending> pending;
    std::uint64_t history = 0;
    Ticks clock = 0;           // the reading of its turn
    Ticks granted_at = 0;      // of its last take of key 1, if not given back; else 0
    Word seen = 0;             // the word that its last decision was shown
    bool has_written = false;  // the decision of the operation under way was carried out
    bool is_finished = false;
  };
  std::optional<Fiber> fiber;
  std::optional<Table::Participant> participant;
  State state;
};

// What the keys' words would be if there were one place for each, and what was admitted when.
struct Ghost {
  std::array<Word, kMaxKeys + 1> ideal{};
  std::array<std::uint8_t, 16> admitted{};  // of key 1, by the moment of decision
  std::uint64_t given_on_top = 0;           // takes before a reset that came back after it
  Ticks clock = 3 * kUnit;                  // the true time
};

// Hashes of states, and with how many preemptions left they were met.
class Visited {
 public:
  // True if the state was met before with at least as many left.
  bool meet(std::uint64_t state, unsigned left);
  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  void clear();

 private:
  struct Place {
    std::uint64_t state = 0;
    std::uint8_t left = 0;
  };
  void grow();
  [[nodiscard]] std::size_t find(std::uint64_t state) const noexcept;

  std::vector<Place> places_;
  std::size_t used_ = 0;
};

class World {
 public:
  World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  Report explore(const Setting& setting, const Limits& limits);

  // scheduler.cpp: what the hooks come to
  void before_access(const void* cell, std::uint64_t value, bool is_relaxed);
  void after_access(const void* cell, Access access, std::uint64_t result);
  void before_write(const void* cell, std::uint64_t from, std::uint64_t to);
  void* allocate(std::size_t bytes, engine::Need need);
  void release(void* array);
  [[nodiscard]] const Arena& arena() const noexcept { return arena_; }
  // operations.cpp
  void after_write(const void* cell, std::uint64_t to);

  Setting setting_;
  Thread& current() noexcept { return threads_[current_]; }

 private:
  // scheduler.cpp
  void run();
  void run_threads();
  void run_program();
  [[nodiscard]] unsigned choose(unsigned options, bool is_preemption);
  [[nodiscard]] unsigned choose_new(unsigned options, bool is_preemption);
  void point();
  void note(std::uint64_t result) noexcept;
  [[noreturn]] void stop_run(std::string violation);
  void tell(std::string_view what);
  [[nodiscard]] std::uint64_t state_hash() const noexcept;
  [[nodiscard]] bool is_random() const noexcept { return limits_.random_runs != 0; }

  // operations.cpp
  void set_up();
  void go_back();
  void tear_down();
  void operate(char operation);
  void take(unsigned key);
  void peek();
  void reset();
  void refund();
  void migrate(bool newest);
  void read_clock();
  [[nodiscard]] std::uint64_t between_operations() const noexcept;
  void see(unsigned key, Word word, Ticks now);
  void check_outcome(engine::Outcome outcome, bool wanted);
  void commit(const Pending& pending);
  [[nodiscard]] bool exceeds_bound() const noexcept;
  [[nodiscard]] std::string check_end();

  Limits limits_;
  Report report_;

  // Of one exploration; `kept_` is how a run begins.
  alignas(Table) std::byte table_storage_[sizeof(Table)]{};
  Table* table_ = nullptr;
  struct Kept {
    alignas(Table) std::byte table[sizeof(Table)]{};
    std::uint64_t segment = 0;
    Ghost ghost;
  } kept_;
  Choices choices_;
  Visited visited_;
  std::uint64_t random_ = 0;

  // Of one run.
  Arena arena_;
  std::array<Thread, kMaxThreads> threads_;
  Ghost ghost_;
  std::size_t count_ = 0;  // of threads
  std::size_t current_ = 0;
  std::size_t next_ = 0;  // whom the scheduler lets run
  bool is_scheduling_ = false;
  bool is_over_ = false;
  bool is_junction_ = false;
  bool is_tracing_ = false;
  std::uint64_t outside_hash_ = 0;  // of the cells that are in no array
  std::uint64_t points_ = 0;
  unsigned preemptions_left_ = 0;
};

}  // namespace pail::model
