// Counters: one by one, each one update of one word.
#include "server/engine/counter.hpp"
#include "server/engine/worker_impl.hpp"

namespace pail::engine {

void Worker::count(const CounterRequest& request, Ticks now, CounterAnswer& answer) noexcept {
  Engine::Impl& engine = impl_->engine;
  const KeyHash hash = KeyHasher::hash(engine.by_counter, request.key);
  now = usable_now(now);
  // What would leave a new counter alone, because it only looks or goes beyond a bound, makes none.
  CounterStep step = engine::count(request, 0, now, engine.counter_life);
  const bool may_make = step.next.has_value();
  const auto outcome =
      engine.table.update(impl_->participant, hash, may_make ? Access::insert : Access::find, now,
                          [&](Word word, Ticks at) noexcept {
                            step = engine::count(request, word, at, engine.counter_life);
                            return step.next;
                          });
  answer = step.answer;
  if (outcome != Outcome::full) return;
  answer = {};
  answer.is_full = true;
}

}  // namespace pail::engine
