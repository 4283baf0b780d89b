// A thread of control with a stack of its own that runs only when it is told to: what the model's
// scheduler switches between. A switch is a few nanoseconds: no kernel, no signal mask.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace pail::model {

class Fiber {
 public:
  using Body = void (*)(void* with);

  // The body must not throw.
  Fiber(Body body, void* with);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() begins the body anew. What stood on the stack is dropped, without
  // destructors.
  void rewind() noexcept;
  // From outside: runs the body on, until it yields or ends.
  void resume() noexcept;
  // From inside: back to whoever resumed.
  void yield() noexcept;
  // The same, for a body that will not be run on but rewound.
  [[noreturn]] void abandon() noexcept;

 private:
  static constexpr std::size_t kStackBytes = 256 * 1024;

  static void enter();
  [[noreturn]] void run() noexcept;

  Body body_;
  void* with_;
  std::unique_ptr<std::byte[]> stack_;
  std::jmp_buf start_;
  std::jmp_buf inside_;   // where the body goes on
  std::jmp_buf outside_;  // where the resumer goes on
};

}  // namespace pail::model
