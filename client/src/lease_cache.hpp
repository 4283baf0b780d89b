// Tokens that were leased ahead, by key, and what is remembered of refusals: what take() looks at
// before it asks the server. No I/O and no clock in here: times come in, leases to ask for go out.
//
// A key has a slot of 64 bytes, looked up among eight by the hash of policy and key. Spending is
// one CAS on one word, waits for nobody and allocates nothing:
//
//   word:  expiry, in units of 64 us of the steady clock, rounded down (40) | tokens (24)
//
// There are two words a slot, because the next lease is fetched before the last one is spent. All
// that is not on that way (sizes, grants, the bytes of keys) lies beside the slots and under a
// mutex.
//
// A slot changes its owner only where nothing in it can be spent any more, and its words are
// emptied before the new owner's print is stored. A spender loads the word, then the print, then
// exchanges the word: so if the print is his, the word was either his or is not there any more; and
// the same word does not come again, because a later lease expires later.
//
// Sizes: a lease that is half spent within half of its target interval (100 ms, or half of the ttl
// if that is less) is followed by one twice as large; one of which half expires, by one half as
// large. A key is leased from its fourth take in 100 ms on; one that has no lease left begins like
// that anew.
//
// Refusals of leased policies are remembered until their retry-after, but not for more than a
// second, so that a RESET is seen.
//
// The bound: a server charges tokens when it leases them, and they are spent within the ttl,
// counted here from before the request was sent. So over any time t a key is admitted at most burst
// + rate x (t + ttl).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <pail/decision.hpp>
#include "client/src/server_clock.hpp"

namespace pail::internal {

// Tokens of leases since the start; spent are those that went neither way and are not held.
struct LeaseCounters {
  std::uint64_t leased = 0;
  std::uint64_t spent = 0;
  std::uint64_t returned = 0;
  std::uint64_t expired = 0;
  std::uint64_t refusals = 0;  // takes refused by what was remembered
};

class LeaseCache {
 public:
  // A lease to ask for, or tokens to return.
  struct Errand {
    std::uint32_t slot = 0;
    std::uint32_t policy = 0;
    std::uint32_t tokens = 0;
    std::uint64_t grant = 0;  // of a return
    std::string key;
  };
  struct Lease {
    std::uint64_t grant = 0;
    std::uint32_t granted = 0;
    std::uint32_t remaining = 0;
    std::uint32_t limit = 0;
    std::chrono::nanoseconds ttl{0};
    Time sent_at{};
  };

  // `keys` is rounded up to a power of two, at least 8.
  LeaseCache(std::size_t keys, std::uint64_t seed);

  // Spends, or refuses as the server did a moment ago; nothing: the server is to be asked.
  // `is_hungry` is set where a lease has become due: next_errand() has it. Any thread.
  [[nodiscard]] std::optional<Decision> take(std::uint32_t policy, std::string_view key,
                                             std::uint32_t cost, std::uint8_t priority, Time now,
                                             bool& is_hungry) noexcept;
  // What the server said of a take that was sent to it. True: a lease has become due. Any thread.
  [[nodiscard]] bool on_server_decision(std::uint32_t policy, std::string_view key,
                                        std::uint32_t cost, std::uint8_t priority,
                                        const Decision& decision, Time sent_at);

  // One thread from here on, beside any number of spenders. Each errand is answered by one of the
  // three.
  [[nodiscard]] std::optional<Errand> next_errand(Time now);
  void on_lease(std::uint32_t slot, const Lease& lease);  // granted 0: too little is left
  void on_refusal(std::uint32_t slot, std::chrono::nanoseconds wait, Time sent_at);
  void on_failure(std::uint32_t slot, Time now);
  // Counts what has expired. True: there is something that may.
  bool sweep(Time now);
  // Takes what is held out of the cache, to be returned.
  [[nodiscard]] std::vector<Errand> take_out(Time now);
  void on_returned(std::uint32_t tokens) noexcept;

  [[nodiscard]] LeaseCounters read() const;

 private:
  static constexpr std::size_t kPlaces = 8;
  static constexpr unsigned kTokenBits = 24;
  static constexpr std::uint64_t kTokenMask = (std::uint64_t{1} << kTokenBits) - 1;
  static constexpr std::uint32_t kMaxTokens = (1u << kTokenBits) - 1;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> print{0};
    std::array<std::atomic<std::uint64_t>, 2> words{};
    // In units. A take of one token at priority 0 was refused: believed until the former, and told
    // to come again at the latter.
    std::atomic<std::uint64_t> refused_until{0};
    std::atomic<std::uint64_t> retry_at{0};
    std::atomic<std::uint64_t> told{0};  // limit (32) | remaining at the last lease (32)
    std::atomic<std::uint32_t> low_water{0};
  };
  static_assert(sizeof(Slot) == 64);

  enum class State : std::uint8_t { watched, queued, asked, leased };
  struct Meta {
    State state = State::watched;
    std::uint32_t policy = 0;
    std::uint32_t misses = 0;  // takes that went to the server in this window
    std::uint32_t size = 0;    // of the next lease; 0: as one begins
    Time window{};             // of misses; or when a lease was last got
    Time not_before{};         // when the next one may be asked for
    std::chrono::nanoseconds target{0};
    std::array<std::uint64_t, 2> grants{};
    std::array<std::uint32_t, 2> granted{};
    std::string key;
  };

  [[nodiscard]] static std::uint64_t to_units(Time time) noexcept;
  [[nodiscard]] static std::uint32_t tokens_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word & kTokenMask);
  }
  [[nodiscard]] static bool is_live(std::uint64_t word, std::uint64_t now) noexcept {
    return tokens_of(word) != 0 && (word >> kTokenBits) > now;
  }
  [[nodiscard]] std::uint64_t print_of(std::uint32_t policy, std::string_view key) const noexcept;
  void remember_refusal(Slot& slot, std::chrono::nanoseconds wait, Time sent_at) noexcept;
  [[nodiscard]] Slot* find(std::uint64_t print) const noexcept;
  [[nodiscard]] std::uint32_t claim(std::uint64_t print, Time now);
  [[nodiscard]] bool can_change_owner(std::uint32_t slot, Time now) const noexcept;
  void drain(std::uint32_t slot, std::size_t word, std::uint64_t now);
  void enqueue(std::uint32_t slot);
  [[nodiscard]] bool is_unleased(std::uint32_t policy, Time now);

  const std::size_t keys_;
  const std::uint64_t seed_;
  const std::unique_ptr<Slot[]> slots_;
  // A bit a slot: its tokens have run low. Set by spenders, cleared by next_errand().
  const std::unique_ptr<std::atomic<std::uint64_t>[]> hungry_;
  std::atomic<std::uint64_t> refusals_{0};

  mutable std::mutex mutex_;
  // Guarded by the mutex.
  std::vector<Meta> metas_;
  std::deque<std::uint32_t> queue_;                   // at most one place a slot
  std::unordered_map<std::uint32_t, Time> unleased_;  // policies not for leasing, and until when
  std::uint64_t leased_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t expired_ = 0;
};

}  // namespace pail::internal
