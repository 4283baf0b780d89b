// The closed loop: as fast as the answers come.
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "bench/loop.hpp"

namespace pail::bench {
namespace {

class ClosedLoop final : public Loop {
 public:
  ClosedLoop(const LoadOptions& options, std::uint32_t index, Meters& meters)
      : Loop(options, index, meters) {
    if (options.requests) budget_ = share_of(*options.requests, options.threads, index);
  }

  [[nodiscard]] tl::expected<void, std::string> run(const RunControl& control) override {
    const std::uint64_t started_ns = now_ns();
    measuring_since_ns_ = started_ns;
    measure_at_ns_ = started_ns + options_.ramp_ns + options_.warmup_ns;
    const std::uint64_t end_ns =
        options_.requests ? ~std::uint64_t{0} : measure_at_ns_ + options_.duration_ns;
    if (options_.ramp_ns + options_.warmup_ns == 0) enter_measure();
    const auto count = static_cast<std::uint32_t>(wires_.size());
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      ring_.arm_receive(static_cast<int>(slot), true, slot);
    }
    std::uint32_t begun = 0;  // connections that have joined
    const auto join_at = [&](std::uint32_t slot) {
      return started_ns + options_.ramp_ns / count * slot;
    };
    std::uint64_t now = started_ns;
    while (true) {
      while (begun < count && phase_ != Phase::drain && join_at(begun) <= now) {
        start_batch(begun++, now_ns());
        publish_progress();
      }
      if (busy_ == 0) break;
      if (failed_to_submit(io_uring_submit_and_wait(ring_.get(), 1)) || !reap()) {
        return tl::unexpected(failure_);
      }
      now = now_ns();
      note_time(now);
      if (now >= end_ns || control.stop.load(std::memory_order_relaxed)) phase_ = Phase::drain;
    }
    return {};
  }

 private:
  struct Batch {
    std::uint32_t next_tag = 1;
    std::uint64_t sent_ns = 0;
    std::vector<std::uint32_t> keys;  // of its requests, where the run is audited
    std::uint32_t answered = 0;
  };

  void prepare(std::uint32_t count) override {
    batches_.resize(count);
    for (Wire& wire : wires_) {
      wire.sending.resize(options_.pipeline * frame_.size_bytes());
      for (std::uint32_t i = 0; i < options_.pipeline; ++i) {
        std::memcpy(wire.sending.data() + i * frame_.bytes().size(), frame_.bytes().data(),
                    frame_.bytes().size());
      }
    }
    if (!options_.is_audited) return;
    for (Batch& batch : batches_) batch.keys.resize(options_.pipeline);
  }

  [[nodiscard]] StatusCounts& counts() noexcept override {
    return phase_ == Phase::measure ? meters_.result.measured : meters_.result.unmeasured;
  }

  // The next batch of a connection, unless the run is over or its requests are spent.
  void start_batch(std::uint32_t slot, std::uint64_t now) noexcept {
    if (phase_ == Phase::drain) return;
    const bool is_counted = phase_ == Phase::measure;
    const auto size = static_cast<std::uint32_t>(
        is_counted ? std::min<std::uint64_t>(options_.pipeline, budget_) : options_.pipeline);
    if (size == 0) return;
    if (is_counted) budget_ -= size;

    Wire& wire = wires_[slot];
    Batch& batch = batches_[slot];
    std::byte* at = wire.sending.data();
    if (options_.is_audited) {
      for (std::uint32_t i = 0; i < size; ++i) {
        batch.keys[i] = keys_.next();
        at += frame_.fill(at, batch.next_tag, batch.keys[i]);
        batch.next_tag = next_tag(batch.next_tag);
      }
    } else {
      for (std::uint32_t i = 0; i < size; ++i) {
        at += frame_.fill(at, batch.next_tag, keys_.next());
        batch.next_tag = next_tag(batch.next_tag);
      }
    }
    io_uring_sqe* entry = ring_.next_entry();
    io_uring_prep_send(entry, static_cast<int>(slot), wire.sending.data(),
                       static_cast<std::size_t>(at - wire.sending.data()),
                       MSG_WAITALL | MSG_NOSIGNAL);
    // Only a failed send completes: a good one is proved by its replies, before which the batch is
    // not written again.
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    entry->user_data = Completion{Completion::Kind::send, slot}.encode();
    wire.in_flight = size;
    batch.sent_ns = now;
    batch.answered = 0;
    meters_.result.sent += size;
    ++busy_;
  }

  void on_replies(std::uint32_t slot, std::uint32_t count) noexcept override {
    Batch& batch = batches_[slot];
    if (needs_outcomes_) {
      const std::uint64_t now = now_ns();
      for (std::uint32_t i = 0; i < count; ++i) {
        remember_grant(batch.keys[batch.answered + i], outcomes_[i].granted, batch.sent_ns, now);
      }
      batch.answered += count;
    }
    if (wires_[slot].in_flight != 0) return;
    const std::uint64_t now = now_ns();
    --busy_;
    if (phase_ == Phase::measure) meters_.latencies.record(now - batch.sent_ns);
    start_batch(slot, now);
  }

  void on_send(std::uint32_t slot, std::int32_t result) override { fail_send(slot, result); }

  std::vector<Batch> batches_;
  std::uint64_t budget_ =
      ~std::uint64_t{0};    // requests that may still be sent in the measured part
  std::uint32_t busy_ = 0;  // connections with requests in flight
};

}  // namespace

std::unique_ptr<Loop> make_closed_loop(const LoadOptions& options, std::uint32_t index,
                                       Meters& meters) {
  return std::make_unique<ClosedLoop>(options, index, meters);
}

}  // namespace pail::bench
