// What the closed and the open loop have in common: connections on one ring, replies checked and
// counted, and the phases of a run.
//
// A Loop belongs to one thread. What others may read meanwhile is in Meters, by atomics.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "bench/batch.hpp"
#include "bench/generator.hpp"
#include "bench/ring.hpp"
#include "bench/socket.hpp"

namespace pail::bench {

[[nodiscard]] std::uint64_t now_ns() noexcept;

enum class Phase : std::uint8_t { warm_up, measure, drain };

class Loop {
 public:
  // Both are borrowed.
  Loop(const LoadOptions& options, std::uint32_t index, Meters& meters);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  virtual ~Loop() = default;

  [[nodiscard]] tl::expected<void, std::string> open();
  [[nodiscard]] virtual tl::expected<void, std::string> run(const RunControl& control) = 0;
  void abort() noexcept;

 protected:
  struct Wire {
    Socket socket;
    std::unique_ptr<ReplyReader> replies;
    std::vector<std::byte> sending;  // the kernel's while a send is under way
    std::uint32_t in_flight = 0;     // requests sent, or about to be, and not yet answered
  };

  // The connections exist: room for what a loop keeps of each. `count` of them.
  virtual void prepare(std::uint32_t count) = 0;
  // Where the replies that arrive now are counted.
  [[nodiscard]] virtual StatusCounts& counts() noexcept = 0;
  // `count` more replies of a connection were checked; outcomes_ holds them if they are asked for.
  virtual void on_replies(std::uint32_t slot, std::uint32_t count) noexcept = 0;
  // The connection's send is over: an error as a negative number, else bytes.
  virtual void on_send(std::uint32_t slot, std::int32_t result) = 0;

  // Handles what has completed, without waiting. False: the run has failed.
  [[nodiscard]] bool reap();
  [[nodiscard]] bool failed_to_submit(int result);
  void fail(std::string text);
  void fail_send(std::uint32_t slot, std::int32_t result);
  void enter_measure() noexcept;
  // reap() does it; before the first one, whoever sends does.
  void publish_progress() noexcept;
  // Begins the measured part when it is time.
  void note_time(std::uint64_t now) noexcept;
  void remember_grant(std::uint32_t key, std::uint32_t tokens, std::uint64_t sent_ns,
                      std::uint64_t received_ns);

  const LoadOptions& options_;
  const std::uint32_t index_;
  Meters& meters_;
  FrameTemplate frame_;
  KeySource keys_;
  std::vector<Wire> wires_;        // outlives the ring, which may still send from it
  std::vector<Outcome> outcomes_;  // of the chunk at hand, where they are asked for
  bool needs_outcomes_;
  Phase phase_ = Phase::warm_up;
  std::uint64_t measure_at_ns_ = 0;
  std::uint64_t measuring_since_ns_ = 0;
  std::string failure_;
  Ring ring_;

 private:
  [[nodiscard]] tl::expected<void, std::string> open_connection(std::uint32_t slot);
  void on_receive(const io_uring_cqe& completion, std::uint32_t slot);
};

[[nodiscard]] std::unique_ptr<Loop> make_closed_loop(const LoadOptions& options,
                                                     std::uint32_t index, Meters& meters);
[[nodiscard]] std::unique_ptr<Loop> make_open_loop(const LoadOptions& options, std::uint32_t index,
                                                   Meters& meters);

}  // namespace pail::bench
