#include "tests/model/fiber.hpp"

#include <ucontext.h>

#include <cstring>
#include <stdexcept>

namespace pail::model {
namespace {

// For the one moment at which a fiber gets its stack.
thread_local Fiber* entering = nullptr;
thread_local ucontext_t maker;

}  // namespace

// ucontext makes the stack, once; setjmp and longjmp switch, which costs no system call.
Fiber::Fiber(Body body, void* with)
    : body_(body), with_(with), stack_(std::make_unique<std::byte[]>(kStackBytes)) {
  ucontext_t made;
  if (getcontext(&made) != 0) throw std::runtime_error("getcontext failed");
  made.uc_stack.ss_sp = stack_.get();
  made.uc_stack.ss_size = kStackBytes;
  made.uc_link = nullptr;
  makecontext(&made, &Fiber::enter, 0);
  entering = this;
  if (swapcontext(&maker, &made) != 0) throw std::runtime_error("swapcontext failed");
  rewind();
}

void Fiber::enter() {
  entering->run();
}

void Fiber::run() noexcept {
  if (_setjmp(start_) == 0) setcontext(&maker);
  body_(with_);
  abandon();
}

void Fiber::rewind() noexcept {
  std::memcpy(&inside_, &start_, sizeof start_);
}

void Fiber::resume() noexcept {
  if (_setjmp(outside_) == 0) _longjmp(inside_, 1);
}

void Fiber::yield() noexcept {
  if (_setjmp(inside_) == 0) _longjmp(outside_, 1);
}

void Fiber::abandon() noexcept {
  _longjmp(outside_, 1);
}

}  // namespace pail::model
