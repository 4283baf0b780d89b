// The open loop: requests are due when the schedule says so, whatever the server does.
//
// A request that is due goes to the next connection with room in its window; one that finds no room
// anywhere waits here, and its latency counts all the same, for it is counted from when it was due.
// How late requests were although there was room is the generator's own doing: the lag.
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "bench/loop.hpp"

namespace pail::bench {
namespace {

constexpr std::uint32_t kMaxWindow = 4096;  // requests in flight on a connection
static_assert(kMaxWindow <= kMaxPipeline);
constexpr std::uint64_t kMaxPending = 1 << 20;      // of a thread: bounds its memory
constexpr std::uint64_t kDrainNs = 10'000'000'000;  // how long answers are awaited after the end
// A sleep may end this much too late, so the last part of a wait is spent looking at the ring.
constexpr std::uint64_t kSpinNs = 60'000;
constexpr std::uint64_t kMaxWaitNs = 100'000'000;  // then a wish to stop is looked at
constexpr unsigned long kTimerSlackNs = 1'000;

struct Pending {
  std::uint64_t due_ns;
  std::uint64_t sent_ns;
  std::uint32_t key;
};

class OpenLoop final : public Loop {
 public:
  OpenLoop(const LoadOptions& options, std::uint32_t index, Meters& meters)
      : Loop(options, index, meters),
        schedule_(options.arrival, options.trace.get(), index, options.threads,
                  derive_seed(~options.seed, index)) {
    needs_outcomes_ = true;
    if (options.requests) budget_ = share_of(*options.requests, options.threads, index);
  }

  [[nodiscard]] tl::expected<void, std::string> run(const RunControl& control) override {
    prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
    started_ns_ = now_ns();
    measure_at_ns_ = started_ns_ + options_.ramp_ns + options_.warmup_ns;
    measuring_since_ns_ = measure_at_ns_;
    last_reply_ns_ = measure_at_ns_;
    end_ns_ = options_.requests ? Schedule::kNever : measure_at_ns_ + options_.duration_ns;
    schedule_.start(started_ns_);
    for (std::uint32_t slot = 0; slot < wires_.size(); ++slot) {
      ring_.arm_receive(static_cast<int>(slot), true, slot);
    }
    while (true) {
      const std::uint64_t now = now_ns();
      if (now >= measure_at_ns_ && phase_ == Phase::warm_up) enter_measure();
      if (control.stop.load(std::memory_order_relaxed)) end_ns_ = std::min(end_ns_, now);
      dispatch(now);
      flush_touched();
      if (is_over() && in_flight_ == 0) break;
      if (end_ns_ < now && now - end_ns_ > kDrainNs) {
        give_up(now);
        break;
      }
      if (failed_to_submit(wait(now)) || !reap()) return tl::unexpected(failure_);
    }
    finish();
    return {};
  }

 private:
  struct Queue {
    std::vector<std::byte> waiting;  // bytes for the send after the one under way
    std::vector<Pending> pending;    // a ring, as large as the window
    std::uint32_t head = 0;          // of pending: the request that is answered next
    std::uint32_t next_tag = 1;
    bool is_sending = false;
    bool is_touched = false;
  };

  void prepare(std::uint32_t count) override {
    const std::uint64_t share = std::bit_floor(kMaxPending / count);
    window_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(kMaxWindow, share));
    queues_.resize(count);
    for (Queue& queue : queues_) queue.pending.resize(window_);
    touched_.reserve(count);
  }

  [[nodiscard]] StatusCounts& counts() noexcept override { return ignored_; }

  [[nodiscard]] bool is_over() const noexcept {
    return budget_ == 0 || schedule_.due_ns() >= end_ns_;
  }

  // Connections join one after another while the ramp lasts.
  [[nodiscard]] std::uint32_t joined(std::uint64_t now) const noexcept {
    const auto count = static_cast<std::uint32_t>(wires_.size());
    const std::uint64_t elapsed = now - started_ns_;
    if (elapsed >= options_.ramp_ns) return count;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(count, elapsed / (options_.ramp_ns / count + 1) + 1));
  }

  void dispatch(std::uint64_t now) noexcept {
    const std::uint32_t connections = joined(now);
    while (schedule_.due_ns() <= now && !is_over()) {
      if (!find_room(connections)) {
        blocked_until_ns_ = now;
        return;
      }
      send_one(cursor_, now);
      schedule_.advance();
      if (++in_row_ >= options_.pipeline) move_on(connections);
    }
  }

  void move_on(std::uint32_t connections) noexcept {
    in_row_ = 0;
    cursor_ = cursor_ + 1 < connections ? cursor_ + 1 : 0;
  }

  [[nodiscard]] bool find_room(std::uint32_t connections) noexcept {
    for (std::uint32_t tried = 0; tried < connections; ++tried) {
      if (wires_[cursor_].in_flight < window_) return true;
      move_on(connections);
    }
    return false;
  }

  void send_one(std::uint32_t slot, std::uint64_t now) noexcept {
    Queue& queue = queues_[slot];
    Wire& wire = wires_[slot];
    Pending& pending = queue.pending[(queue.head + wire.in_flight) & (window_ - 1)];
    pending = {schedule_.due_ns(), now, append_request(queue)};
    queue.next_tag = next_tag(queue.next_tag);
    ++wire.in_flight;
    ++in_flight_;
    ++meters_.result.sent;
    if (is_measured(pending)) {
      ++meters_.result.offered;
      --budget_;
      if (pending.due_ns > blocked_until_ns_) meters_.lag.record(now - pending.due_ns);
    }
    if (!queue.is_touched) touched_.push_back(slot);
    queue.is_touched = true;
  }

  [[nodiscard]] bool is_measured(const Pending& pending) const noexcept {
    return pending.due_ns >= measure_at_ns_;
  }

  // Returns the key's number.
  std::uint32_t append_request(Queue& queue) noexcept {
    const std::size_t before = queue.waiting.size();
    if (options_.trace == nullptr) {
      queue.waiting.resize(before + frame_.size_bytes());
      std::memcpy(queue.waiting.data() + before, frame_.bytes().data(), frame_.bytes().size());
      const std::uint32_t key = keys_.next();
      const std::size_t size = frame_.fill(queue.waiting.data() + before, queue.next_tag, key);
      queue.waiting.resize(before + size);
      return key;
    }
    const TraceEntry& entry = schedule_.entry();
    queue.waiting.resize(before + protocol::kMaxFrameBytes);
    const std::size_t size =
        write_request(options_, options_.mix.op_of(queue.next_tag), queue.next_tag,
                      options_.trace->keys[entry.key], entry.cost,
                      protocol::Buffer(queue.waiting).subspan(before));
    queue.waiting.resize(before + size);
    return entry.key;
  }

  void flush_touched() noexcept {
    for (const std::uint32_t slot : touched_) {
      queues_[slot].is_touched = false;
      flush(slot);
    }
    touched_.clear();
  }

  void flush(std::uint32_t slot) noexcept {
    Queue& queue = queues_[slot];
    if (queue.is_sending || queue.waiting.empty()) return;
    std::vector<std::byte>& bytes = wires_[slot].sending;
    bytes.swap(queue.waiting);
    queue.waiting.clear();
    io_uring_sqe* entry = ring_.next_entry();
    io_uring_prep_send(entry, static_cast<int>(slot), bytes.data(), bytes.size(),
                       MSG_WAITALL | MSG_NOSIGNAL);
    entry->flags |= IOSQE_FIXED_FILE;
    entry->user_data = Completion{Completion::Kind::send, slot}.encode();
    queue.is_sending = true;
  }

  void on_send(std::uint32_t slot, std::int32_t result) override {
    if (result != static_cast<std::int32_t>(wires_[slot].sending.size())) {
      return fail_send(slot, result);
    }
    queues_[slot].is_sending = false;
    flush(slot);
  }

  void on_replies(std::uint32_t slot, std::uint32_t count) noexcept override {
    Queue& queue = queues_[slot];
    const std::uint64_t now = now_ns();
    for (std::uint32_t i = 0; i < count; ++i) {
      const Pending& pending = queue.pending[queue.head];
      queue.head = (queue.head + 1) & (window_ - 1);
      const auto status = static_cast<std::size_t>(outcomes_[i].status);
      if (is_measured(pending)) {
        ++meters_.result.measured.of[status];
        meters_.latencies.record(now - pending.due_ns);
        last_reply_ns_ = now;
      } else {
        ++meters_.result.unmeasured.of[status];
      }
      if (options_.is_audited) {
        remember_grant(pending.key, outcomes_[i].granted, pending.sent_ns, now);
      }
    }
    in_flight_ -= count;
  }

  // Until something completes or the next request is due.
  [[nodiscard]] int wait(std::uint64_t now) noexcept {
    // Without room, or at the end, only a completion changes anything.
    const bool is_blocked = blocked_until_ns_ == now || is_over();
    const std::uint64_t due = is_blocked ? now + kMaxWaitNs : schedule_.due_ns();
    if (due <= now + kSpinNs) return io_uring_submit_and_get_events(ring_.get());
    const std::uint64_t wait_ns = std::min(due - kSpinNs - now, kMaxWaitNs);
    __kernel_timespec limit{static_cast<long long>(wait_ns / 1'000'000'000),
                            static_cast<long long>(wait_ns % 1'000'000'000)};
    io_uring_cqe* first = nullptr;
    return io_uring_submit_and_wait_timeout(ring_.get(), &first, 1, &limit, nullptr);
  }

  // What got no answer in all this time took at least this time.
  void give_up(std::uint64_t now) noexcept {
    const auto lose = [&](std::uint64_t due_ns) {
      if (due_ns < measure_at_ns_) return;
      ++meters_.result.unanswered;
      meters_.latencies.record(now - due_ns);
    };
    for (std::uint32_t slot = 0; slot < queues_.size(); ++slot) {
      for (std::uint32_t i = 0; i < wires_[slot].in_flight; ++i) {
        lose(queues_[slot].pending[(queues_[slot].head + i) & (window_ - 1)].due_ns);
      }
    }
    for (; !is_over(); schedule_.advance()) {
      if (schedule_.due_ns() >= measure_at_ns_) {
        ++meters_.result.offered;
        --budget_;
      }
      lose(schedule_.due_ns());
    }
  }

  void finish() noexcept {
    // A rate is over the time in which requests were due, longer if the answers took longer.
    const bool has_end = end_ns_ != Schedule::kNever && options_.trace == nullptr;
    const std::uint64_t until = has_end ? std::max(end_ns_, last_reply_ns_) : last_reply_ns_;
    meters_.result.measured_ns = until > measure_at_ns_ ? until - measure_at_ns_ : 0;
  }

  Schedule schedule_;
  std::vector<Queue> queues_;
  std::vector<std::uint32_t> touched_;  // connections that this turn gave requests
  StatusCounts ignored_;  // counted by phase of the request, not of the moment: see on_replies
  std::uint32_t window_ = 1;
  std::uint32_t cursor_ = 0;  // the connection whose turn it is
  std::uint32_t in_row_ = 0;  // requests that it has got in a row
  std::uint64_t in_flight_ = 0;
  std::uint64_t budget_ = ~std::uint64_t{0};
  std::uint64_t started_ns_ = 0;
  std::uint64_t end_ns_ = Schedule::kNever;
  std::uint64_t blocked_until_ns_ = 0;  // no connection had room at this time
  std::uint64_t last_reply_ns_ = 0;
};

}  // namespace

std::unique_ptr<Loop> make_open_loop(const LoadOptions& options, std::uint32_t index,
                                     Meters& meters) {
  return std::make_unique<OpenLoop>(options, index, meters);
}

}  // namespace pail::bench
