// When may memory that others can still be reading be freed? Once every thread has passed a moment
// at which it held no reference: a quiescent state. (Quiescent-state-based reclamation, after
// McKenney; the cheapest kind for readers: between two quiescent states they pay nothing.)
//
// A thread takes a seat. It is quiescent when it says so (once a loop turn) and all the while it is
// offline (asleep in the kernel, or between calls if it is not a shard). An object that was
// unlinked gets a stamp; it may be freed once every online seat has been quiescent after that
// stamp.
//
// Shared fields, and why they are enough (no standalone fences, no sequential consistency):
//
//   epoch_      RMW only (acq_rel): stamp() returns the old value and moves it on. So all
//   increments
//               form one release sequence: who reads a value > s synchronizes with the stamp() that
//               returned s, and sees whatever was unlinked before it.
//   Seat::seen  written by the seat's thread; read by whoever wants to free.
//     quiesce   seen := epoch_ (acquire), stored with release. If seen > s, then the loads after it
//               cannot find the object stamped s (see epoch_); and the uses before it happened
//               before whoever reads this seen (release to the acquire in horizon()).
//     offline   seen := 0 with release, for the same reason.
//     online    seen := epoch_ by exchange (acq_rel), and horizon() looks at an offline seat by
//               fetch_add(0) (acq_rel): of two RMWs one comes first. If the exchange does,
//               horizon() sees the seat online. If horizon() does, the exchange synchronizes with
//               it, and so the thread sees everything unlinked before horizon() was called. That
//               store-load order is the one thing that release and acquire alone would not give.
//   seats_in_use_  RMW (acq_rel) on both sides, for the same reason: a seat that horizon() does not
//   look
//               at yet belongs to a thread that synchronizes with that horizon() before its first
//               load.
//   Seat::taken claimed with acquire, given up with release: the plain fields of a seat pass along.
//
// Progress: quiesce, offline, online, stamp are wait-free; horizon() looks at every seat in use
// once. A thread that is online and stops (descheduled, in a debugger) keeps memory from being
// freed for so long; it delays nobody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace pail::engine {

inline constexpr std::size_t kCacheLineBytes = 64;

// PerSeat: what else belongs to the thread that holds a seat.
template <class Traits, class PerSeat>
class Quiescence {
 public:
  static constexpr std::size_t kMaxSeats = Traits::kMaxThreads;

  // Two lines, because the kernel-side prefetcher fetches lines in pairs.
  struct alignas(2 * kCacheLineBytes) Seat {
    typename Traits::template Atomic<std::uint64_t> seen{kOffline};
    typename Traits::template Atomic<std::uint64_t> taken{0};
    PerSeat own;
  };

  // Offline at first. Throws if all seats are taken.
  [[nodiscard]] Seat& enroll() {
    for (std::size_t i = 0; i < kMaxSeats; ++i) {
      std::uint64_t nobody = 0;
      if (!seats_[i].taken.compare_exchange_strong(nobody, 1, std::memory_order_acquire,
                                                   std::memory_order_relaxed)) {
        continue;
      }
      std::uint64_t in_use = seats_in_use_.load(std::memory_order_relaxed);
      while (in_use < i + 1 &&
             !seats_in_use_.compare_exchange_weak(in_use, i + 1, std::memory_order_acq_rel,
                                                  std::memory_order_relaxed)) {
      }
      return seats_[i];
    }
    throw std::length_error("more threads enrolled at the table than it has seats for");
  }
  void leave(Seat& seat) noexcept {
    offline(seat);
    seat.taken.store(0, std::memory_order_release);
  }

  void quiesce(Seat& seat) noexcept {
    seat.seen.store(epoch_.load(std::memory_order_acquire), std::memory_order_release);
  }
  void offline(Seat& seat) noexcept { seat.seen.store(kOffline, std::memory_order_release); }
  void online(Seat& seat) noexcept {
    seat.seen.exchange(epoch_.load(std::memory_order_acquire), std::memory_order_acq_rel);
  }

  // For an object that was just unlinked.
  [[nodiscard]] std::uint64_t stamp() noexcept {
    return epoch_.fetch_add(1, std::memory_order_acq_rel);
  }

  // Objects with a stamp below this may be freed.
  [[nodiscard]] std::uint64_t horizon() noexcept {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t in_use = seats_in_use_.fetch_add(0, std::memory_order_acq_rel);
    for (std::uint64_t i = 0; i < in_use; ++i) {
      Seat& seat = seats_[i];
      std::uint64_t seen = seat.seen.load(std::memory_order_acquire);
      if (seen == kOffline) seen = seat.seen.fetch_add(0, std::memory_order_acq_rel);
      if (seen != kOffline) least = std::min(least, seen);
    }
    return least;
  }

  [[nodiscard]] const std::array<Seat, kMaxSeats>& seats() const noexcept { return seats_; }
  [[nodiscard]] std::array<Seat, kMaxSeats>& seats() noexcept { return seats_; }

 private:
  static constexpr std::uint64_t kOffline = 0;

  typename Traits::template Atomic<std::uint64_t> epoch_{1};
  typename Traits::template Atomic<std::uint64_t> seats_in_use_{0};
  std::array<Seat, kMaxSeats> seats_;
};

}  // namespace pail::engine
