// What goes wrong on a shard and is told to the operator: the kinds, and one example of each.
//
// A shard counts every fault, always. Beside that it leaves a note about one of them, who it was
// and why, if the last note of that kind has been fetched. So a thousand bad connections cost one
// note, and the thread that writes the log (journal.hpp) never makes a shard wait.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "protocol/messages.hpp"

namespace pail::server {

enum class Fault : std::uint8_t {
  refused_hello,
  unauthorized,
  malformed,
  hello_timeout,
  stuck_peer,
  receive_error,
  send_error,
  accept_error,
  too_many_connections,
  no_reply_memory,
  table_full,
  overloaded,
  completion_overflow,
};
inline constexpr std::size_t kFaults = static_cast<std::size_t>(Fault::completion_overflow) + 1;

// Of fixed size, so that leaving one allocates nothing.
struct FaultNote {
  sockaddr_storage peer{};
  socklen_t peer_bytes = 0;  // 0: not known any more
  std::string_view reason;   // static text
  std::array<char, protocol::kMaxClientNameBytes> client{};
  std::size_t client_bytes = 0;

  void set_client(std::string_view name) noexcept {
    client_bytes = name.size() < client.size() ? name.size() : client.size();
    if (client_bytes != 0) std::memcpy(client.data(), name.data(), client_bytes);
  }
  [[nodiscard]] std::string_view client_name() const noexcept {
    return {client.data(), client_bytes};
  }
};

class FaultNotes {
 public:
  // The shard's thread. False: there is a note already, so finding out more is not worth it.
  [[nodiscard]] bool wants(Fault fault) const noexcept {
    return !is_there_[index(fault)].load(std::memory_order_relaxed);
  }
  // The shard's thread. Lost where the other thread is looking at this moment.
  void put(Fault fault, const FaultNote& note) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    notes_[index(fault)] = note;
    is_there_[index(fault)].store(true, std::memory_order_relaxed);
  }

  // Any thread.
  [[nodiscard]] std::optional<FaultNote> take(Fault fault) noexcept {
    if (wants(fault)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    is_there_[index(fault)].store(false, std::memory_order_relaxed);
    return notes_[index(fault)];
  }

 private:
  [[nodiscard]] static constexpr std::size_t index(Fault fault) noexcept {
    return static_cast<std::size_t>(fault);
  }

  mutable std::mutex mutex_;  // the notes; the flags are only hints
  std::array<FaultNote, kFaults> notes_;
  std::array<std::atomic<bool>, kFaults> is_there_{};
};

// What an errno means: static text, unlike strerror's.
[[nodiscard]] inline std::string_view words_for(int code) noexcept {
  const char* const text = code == 0 ? nullptr : ::strerrordesc_np(code);
  return text == nullptr ? std::string_view() : text;
}

}  // namespace pail::server
