// A descriptor kept for the hour when there is none.
//
// Without it a process at its limit can only leave new connections in the queue, where they wait
// for nothing and are reported as failed accepts over and over. With it one connection at a time
// is accepted in the reserve's stead and closed, so that its peer learns at once. Used by one
// thread.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace pail::io {

class Reserve {
 public:
  Reserve() noexcept { static_cast<void>(take()); }
  ~Reserve() { static_cast<void>(let_go()); }
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  // Whether it is held now; held already is fine.
  [[nodiscard]] bool take() noexcept {
    if (descriptor_ < 0) descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    return descriptor_ >= 0;
  }
  // Whether it was held: one descriptor more is free for others now.
  [[nodiscard]] bool let_go() noexcept {
    return descriptor_ >= 0 && ::close(std::exchange(descriptor_, -1)) == 0;
  }

 private:
  int descriptor_ = -1;
};

}  // namespace pail::io
