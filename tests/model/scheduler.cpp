// The scheduler of the model: choices, states that were met, and what an access comes to.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/model/world_state.hpp"

namespace pail::model {
namespace {

// A run that takes so many steps does not end.
constexpr std::uint64_t kMaxPoints = 20'000;

World& world() noexcept {
  static thread_local World instance;
  return instance;
}

}  // namespace

// ---- the hooks

const Setting& setting() noexcept {
  return world().setting_;
}
Ticks own_clock() noexcept {
  return world().current().state.clock;
}
void before_access(const void* cell, std::uint64_t value, bool is_relaxed) {
  world().before_access(cell, value, is_relaxed);
}
void after_access(const void* cell, Access access, std::uint64_t result) {
  world().after_access(cell, access, result);
}
void before_write(const void* cell, std::uint64_t from, std::uint64_t to) {
  world().before_write(cell, from, to);
}
void after_write(const void* cell, std::uint64_t to) {
  world().after_write(cell, to);
}
bool is_in_array(const void* cell) {
  return world().arena().contains(cell);
}
void* allocate_array(std::size_t bytes, engine::Need need) {
  return world().allocate(bytes, need);
}
void release_array(void* array) {
  world().release(array);
}
bool is_at_array_limit() {
  return world().arena().in_use() >= world().setting_.max_arrays;
}

Report explore(const Setting& setting, const Limits& limits) {
  return world().explore(setting, limits);
}

// ---- states

std::size_t Visited::find(std::uint64_t state) const noexcept {
  std::size_t i = state & (places_.size() - 1);
  while (places_[i].state != 0 && places_[i].state != state) i = (i + 1) & (places_.size() - 1);
  return i;
}

void Visited::grow() {
  const std::vector<Place> old = std::exchange(places_, std::vector<Place>(places_.size() * 4));
  for (const Place& place : old) {
    if (place.state != 0) places_[find(place.state)] = place;
  }
}

bool Visited::meet(std::uint64_t state, unsigned left) {
  if (state == 0) state = 1;
  if ((used_ + 1) * 2 > places_.size()) grow();
  Place& place = places_[find(state)];
  if (place.state == state && place.left >= left) return true;
  if (place.state == 0) ++used_;
  place = {state, static_cast<std::uint8_t>(left)};
  return false;
}

void Visited::clear() {
  places_.assign(1 << 12, {});
  used_ = 0;
}

std::uint64_t World::state_hash() const noexcept {
  std::uint64_t sum = mix(arena_.hash() ^ outside_hash_) + current_;
  for (std::size_t t = 0; t < count_; ++t) {
    const Thread::State& state = threads_[t].state;
    sum = mix(sum ^ state.history) + (state.is_finished ? 1 : 0);
    sum = mix(sum ^ state.clock ^ (state.granted_at << 8));
  }
  for (const Word word : ghost_.ideal) sum = mix(sum ^ word);
  for (std::size_t i = 0; i < ghost_.admitted.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &ghost_.admitted[i], 8);
    sum = mix(sum ^ eight);
  }
  return mix(sum ^ ghost_.clock ^ ghost_.given_on_top);
}

// ---- runs

World::World() {
  for (Thread& thread : threads_) {
    thread.fiber.emplace([](void* with) { static_cast<World*>(with)->run_program(); }, this);
  }
}

World::~World() = default;

Report World::explore(const Setting& setting, const Limits& limits) {
  setting_ = setting;
  limits_ = limits;
  report_ = {};
  choices_.clear();
  visited_.clear();
  random_ = limits.seed;
  set_up();
  for (bool is_more = true; is_more;) {
    run();
    ++report_.runs;
    if (!report_.violation.empty()) break;
    if (is_random()) choices_.clear();
    is_more = is_random() ? report_.runs < limits_.random_runs : choices_.advance();
  }
  report_.states = visited_.size();
  if (!report_.violation.empty()) {
    is_tracing_ = true;
    run();  // the same choices once more, told
    is_tracing_ = false;
  }
  tear_down();
  return std::move(report_);
}

void World::run() {
  choices_.rewind();
  points_ = 0;
  outside_hash_ = 0;
  is_over_ = false;
  preemptions_left_ = limits_.preemptions;
  go_back();
  for (std::size_t t = 0; t < count_; ++t) {
    threads_[t].state = {};
    threads_[t].state.clock = ghost_.clock;
    threads_[t].state.history = t;
    threads_[t].fiber->rewind();
  }
  is_scheduling_ = true;
  run_threads();
  is_scheduling_ = false;
  if (is_over_ || (!is_random() && !is_tracing_ && visited_.meet(state_hash(), 0))) return;
  std::string fault = check_end();
  if (is_tracing_) report_.trace.push_back("at the end: " + fault);
  report_.violation = std::move(fault);
}

void World::run_threads() {
  next_ = choose(static_cast<unsigned>(count_), false);
  for (;;) {
    current_ = next_;
    is_junction_ = true;
    current().fiber->resume();
    if (is_over_) return;
    if (!current().state.is_finished) continue;
    std::array<std::size_t, kMaxThreads> left{};
    unsigned count = 0;
    for (std::size_t t = 0; t < count_; ++t) {
      if (!threads_[t].state.is_finished) left[count++] = t;
    }
    if (count == 0) return;
    next_ = left[choose(count, false)];
  }
}

// A thread: its operations one by one; then it sleeps.
void World::run_program() {
  const std::string& program = setting_.programs[current_];
  for (std::size_t i = 0; i <= program.size(); ++i) {
    current().state.history = mix((i << 8 | current_) ^ between_operations());
    is_junction_ = true;
    if (i == program.size()) break;
    if (is_tracing_) tell(std::string("-- ") + program[i]);
    operate(program[i]);
  }
  tell("-- sleeps");
  current().participant->offline();
  current().state.is_finished = true;
}

unsigned World::choose(unsigned options, bool is_preemption) {
  return choices_.choose(options, [&] { return choose_new(options, is_preemption); });
}

unsigned World::choose_new(unsigned options, bool is_preemption) {
  if (!is_random()) return 0;
  random_ += 0x9E3779B97F4A7C15;
  const std::uint64_t dice = mix(random_);
  if (is_preemption && dice % 8 != 0) return 0;
  return static_cast<unsigned>((dice >> 8) % options);
}

void World::point() {
  if (++points_ > kMaxPoints) stop_run("a run does not end");
  // With no preemption left a thread runs on alone: looked up where it begins to, and where an
  // operation does, which is enough to meet again.
  const bool is_junction = std::exchange(is_junction_, false) || preemptions_left_ != 0;
  if (is_junction && choices_.is_new() && !is_random() && !is_tracing_ &&
      visited_.meet(state_hash(), preemptions_left_)) {
    stop_run("");
  }
  if (preemptions_left_ == 0 && !is_random()) return;
  std::array<std::size_t, kMaxThreads> others{};
  unsigned count = 0;
  for (std::size_t t = 0; t < count_; ++t) {
    if (t != current_ && !threads_[t].state.is_finished) others[count++] = t;
  }
  const unsigned chosen = choose(count + 1, true);
  if (chosen == 0) return;
  if (!is_random()) --preemptions_left_;
  next_ = others[chosen - 1];
  current().fiber->yield();
}

void World::stop_run(std::string violation) {
  report_.violation = std::move(violation);
  tell(report_.violation);
  is_over_ = true;
  current().fiber->abandon();
}

void World::note(std::uint64_t result) noexcept {
  std::uint64_t& history = current().state.history;
  history = mix(history ^ result) + 1;
}

void World::tell(std::string_view what) {
  if (!is_tracing_) return;
  report_.trace.push_back(std::string(1, static_cast<char>('A' + current_)) + ": ");
  report_.trace.back() += what;
}

// ---- accesses

void World::before_access(const void* cell, std::uint64_t value, bool is_relaxed) {
  if (!is_scheduling_) return;
  // Relaxed reads of an array's slots are estimates; a relaxed cell elsewhere is an access like
  // others.
  const bool is_hint = is_relaxed && arena_.contains(cell);
  if (is_random() || (!is_hint && !arena_.is_final(cell, value))) point();
  if (arena_.is_freed(cell)) {
    if (is_tracing_) tell("touches " + arena_.describe(cell));
    stop_run("a freed array is touched");
  }
}

void World::after_access(const void* cell, Access access, std::uint64_t result) {
  if (!is_scheduling_) return;
  note(result);
  if (!is_tracing_) return;
  static constexpr std::array kNames{"load", "store", "exchange", "CAS", "add", "or"};
  const std::string where =
      arena_.contains(cell) ? arena_.describe(cell)
      : static_cast<const std::byte*>(cell) >= table_storage_ &&
              static_cast<const std::byte*>(cell) < table_storage_ + sizeof table_storage_
          ? "a seat"
          : "the segment";
  const Arena::Cell kind = arena_.kind(cell);
  std::string shown = std::to_string(result);
  if (kind == Arena::Cell::word) {
    const Word word = result & ~engine::kFrozen;
    shown = (word != result ? "frozen " : "") + std::to_string(word / kUnit);
  } else if (kind == Arena::Cell::print && result == engine::kTombstone) {
    shown = "tombstone";
  } else if (kind == Arena::Cell::print) {
    shown = result == engine::kEmpty ? "empty" : "key " + std::to_string(result & 0xFF);
  } else if (const engine::ArrayRef<Traits> array{result};
             arena_.contains(array.array()) && array.lines() <= kMaxSlots) {
    shown = arena_.describe(array.array());
    shown.resize(shown.find('.'));
  }
  tell(std::string(kNames[static_cast<unsigned>(access)]) + " " + where + ": " + shown);
}

void World::before_write(const void* cell, std::uint64_t from, std::uint64_t to) {
  if (!is_scheduling_) return;
  if (const std::string_view fault = arena_.find_fault(cell, from, to); !fault.empty()) {
    stop_run(std::string(fault));
  }
  if (arena_.contains(cell)) return;
  // Cells of the table have the same address in all runs of an exploration.
  const auto address = reinterpret_cast<std::uintptr_t>(cell) * 0x9E3779B97F4A7C15;
  outside_hash_ ^= mix(address ^ from) ^ mix(address ^ to);
}

// ---- arrays

void* World::allocate(std::size_t bytes, engine::Need need) {
  if (is_scheduling_ && arena_.is_exhausted()) stop_run("arrays without end");
  void* array = arena_.allocate(bytes, need, setting_.max_arrays);
  if (is_scheduling_) note(array != nullptr ? reinterpret_cast<std::uintptr_t>(array) : 0);
  return array;
}

void World::release(void* array) {
  arena_.release(array);
}

}  // namespace pail::model
