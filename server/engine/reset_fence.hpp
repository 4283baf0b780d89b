// Keeps what was taken before a RESET from being given back after it.
//
// A refund lowers a key's word by what its take raised it by. After a RESET the word no longer
// bears that take: it bears what others took since, and a refund would give them theirs twice. The
// same is true of permits. So RESETs of a key are counted, a take notes the count, and it gives
// back only while that count stands.
//
// The argument, for one key. A take reads `finished` before it charges. A RESET adds to `started`,
// lowers the word, adds to `finished`. A refund reads `started`, and is good iff that is what the
// take noted:
//
//   1. A RESET that lowers the word after the take charged it had not finished when the take noted
//      the count, since finishing comes after lowering. So the take's note does not count it.
//   2. A refund that changes the word after that RESET did finds it counted in `started`: see 3. So
//      its reading is larger than the note, and it gives nothing back.
//   3. Refunds and RESETs exclude each other. A refund adds to `refunding` and then reads
//   `started`;
//      a RESET adds to `started` and then reads `refunding`, and waits for 0: one of them sees the
//      other. Comparing the word alone would not do, since after the RESET others may take until it
//      has the value it had.
//
// Keys share the counts, kCells of them by the keyed hash: whoever shares one with a key that is
// RESET loses the right to give back, which errs against the caller. Of two RESETs at once the
// takes between them lose it too.
//
// That will not do for several limits of which one refuses: what the others were charged must come
// back, always. So such a request holds RESETs off from before it charges until it is decided:
//
//   4. A hold adds to `refunding`, then reads `finished`, then `started`. If they are equal, no
//      RESET was under way in between (`finished` never passes `started`, and neither goes back);
//      one that starts later finds the hold in `refunding`, as in 3. If they are not, the hold lets
//      go, so that the RESET is not kept waiting by one hold after the other.
//
// Progress: takes and refunds wait for nobody. A RESET waits for the refunds and holds of its cell
// that are under way, a hold for the RESET, less than a microsecond each; where one is descheduled
// too long the waiting is given up, nothing done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include "server/engine/table_types.hpp"
#include "server/engine/zero_pages.hpp"

namespace pail::engine {

class ResetFence {
  struct Cell {
    std::atomic<std::uint32_t> started;
    std::atomic<std::uint32_t> finished;
    std::atomic<std::uint32_t> refunding;
    std::uint32_t unused;
  };
  static_assert(sizeof(Cell) == 16);

 public:
  static constexpr std::size_t kCells = std::size_t{1} << 16;

  // A megabyte of zeros that is touched only where something is given back or RESET. Throws
  // std::bad_alloc.
  ResetFence() : cells_(reinterpret_cast<Cell*>(map_zeros(kCells * sizeof(Cell)))) {
    if (cells_ == nullptr) throw std::bad_alloc();
  }

  // For a take to note BEFORE it charges. Acquire: who sees that a RESET has finished charges what
  // it left (1 above).
  [[nodiscard]] std::uint32_t finished(KeyHash key) const noexcept {
    return cell(key).finished.load(std::memory_order_acquire);
  }

  // While one lives whose resets() are what the take noted, no word of the key is RESET. Both
  // entries of a pair are one key.
  class Refund {
   public:
    Refund(ResetFence& fence, KeyHash key) noexcept : cell_(fence.cell(key)) {
      // Sequentially consistent, both, as in Reset: or each might miss the other.
      cell_.refunding.fetch_add(1);
      resets_ = cell_.started.load();
    }
    // Release: a RESET that finds nobody sees what was given back.
    ~Refund() { cell_.refunding.fetch_sub(1, std::memory_order_release); }
    Refund(const Refund&) = delete;
    Refund& operator=(const Refund&) = delete;

    // What a take must have noted to be given back now.
    [[nodiscard]] std::uint32_t resets() const noexcept { return resets_; }

   private:
    Cell& cell_;
    std::uint32_t resets_ = 0;
  };

  // While one lives that is_calm(), no word of the key is RESET, and none was being RESET when it
  // began: what is charged within can be given back within.
  class Hold {
   public:
    Hold(ResetFence& fence, KeyHash key) noexcept : cell_(fence.cell(key)) {
      for (int i = 0; i < kPatience && !is_calm_; ++i) {
        if (i > 0) std::this_thread::yield();
        // Sequentially consistent, all three, as in Refund and Reset.
        cell_.refunding.fetch_add(1);
        const std::uint32_t finished = cell_.finished.load();
        is_calm_ = cell_.started.load() == finished;
        if (!is_calm_) let_go();
      }
    }
    ~Hold() {
      if (is_calm_) let_go();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    [[nodiscard]] bool is_calm() const noexcept { return is_calm_; }

   private:
    void let_go() noexcept { cell_.refunding.fetch_sub(1, std::memory_order_release); }
    Cell& cell_;
    bool is_calm_ = false;
  };

  // Around the lowering of the key's words, if it is granted.
  class Reset {
   public:
    Reset(ResetFence& fence, KeyHash key) noexcept : cell_(fence.cell(key)) {
      cell_.started.fetch_add(1);
      for (int i = 0; i < kPatience && !is_granted_; ++i) {
        if (i > 0) std::this_thread::yield();
        is_granted_ = cell_.refunding.load() == 0;
      }
    }
    ~Reset() { cell_.finished.fetch_add(1, std::memory_order_release); }
    Reset(const Reset&) = delete;
    Reset& operator=(const Reset&) = delete;

    [[nodiscard]] bool is_granted() const noexcept { return is_granted_; }

   private:
    Cell& cell_;
    bool is_granted_ = false;
  };

 private:
  static constexpr int kPatience = 256;

  struct Free {
    void operator()(Cell* cells) const noexcept { munmap(cells, kCells * sizeof(Cell)); }
  };

  [[nodiscard]] Cell& cell(KeyHash key) const noexcept { return cells_.get()[key.high % kCells]; }

  std::unique_ptr<Cell, Free> cells_;
};

}  // namespace pail::engine
