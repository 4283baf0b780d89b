#include "bench/generator.hpp"

#include "bench/loop.hpp"

namespace pail::bench {

Generator::Generator(const LoadOptions& options, std::uint32_t index)
    : loop_(options.arrival.kind == Arrival::Kind::closed
                ? make_closed_loop(options, index, meters_)
                : make_open_loop(options, index, meters_)) {}
Generator::~Generator() = default;

void Generator::abort() noexcept {
  loop_->abort();
}
tl::expected<void, std::string> Generator::open() {
  return loop_->open();
}
tl::expected<void, std::string> Generator::run(const RunControl& control) {
  return loop_->run(control);
}

}  // namespace pail::bench
