#include "bench/schedule.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace pail::bench {
namespace {

constexpr std::string_view kPoisson = "poisson:";
constexpr double kMinPerS = 0.01;
constexpr double kMaxPerS = 100e6;

}  // namespace

tl::expected<Arrival, std::string> parse_arrival(std::string_view text) {
  const auto wrong = tl::unexpected(
      fmt::format("'{}' is no arrival rate: requests a second, 0.01 to 100M, as in 50k/s, 1.5M/s "
                  "or poisson:50k/s",
                  text));
  Arrival arrival{Arrival::Kind::even, 0};
  std::string_view rest = text;
  if (rest.starts_with(kPoisson)) {
    arrival.kind = Arrival::Kind::poisson;
    rest.remove_prefix(kPoisson.size());
  }
  const char* const last = rest.data() + rest.size();
  const auto [end, error] = std::from_chars(rest.data(), last, arrival.per_s);
  if (error != std::errc()) return wrong;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (rest.starts_with('k')) {
    arrival.per_s *= 1e3;
    rest.remove_prefix(1);
  } else if (rest.starts_with('M')) {
    arrival.per_s *= 1e6;
    rest.remove_prefix(1);
  }
  if (rest != "/s" || !(arrival.per_s >= kMinPerS) || arrival.per_s > kMaxPerS) return wrong;
  return arrival;
}

std::string format_arrival(const Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::Kind::closed:
      return "closed";
    case Arrival::Kind::even:
      return fmt::format("{}/s", arrival.per_s);
    case Arrival::Kind::poisson:
      return fmt::format("poisson:{}/s", arrival.per_s);
    case Arrival::Kind::trace:
      return "trace";
  }
  return "unknown";
}

Schedule::Schedule(const Arrival& arrival, const Trace* trace, std::uint32_t thread,
                   std::uint32_t threads, std::uint64_t seed)
    : arrival_(arrival),
      trace_(trace),
      index_(thread),
      step_(threads),
      gap_ns_(arrival.per_s > 0 ? 1e9 / arrival.per_s : 0),
      random_(seed) {}

void Schedule::start(std::uint64_t now_ns) noexcept {
  start_ns_ = now_ns;
  find_due();
}

void Schedule::advance() noexcept {
  index_ += step_;
  find_due();
}

void Schedule::find_due() noexcept {
  switch (arrival_.kind) {
    case Arrival::Kind::closed:
      due_ns_ = kNever;
      return;
    case Arrival::Kind::even:
      // From the index, not from the last one: rounding does not add up.
      due_ns_ = start_ns_ + static_cast<std::uint64_t>(static_cast<double>(index_) * gap_ns_);
      return;
    case Arrival::Kind::poisson:
      // Thinned streams of a Poisson process are Poisson themselves.
      elapsed_ns_ -= std::log1p(-random_.unit()) * gap_ns_ * static_cast<double>(step_);
      due_ns_ = start_ns_ + static_cast<std::uint64_t>(elapsed_ns_);
      return;
    case Arrival::Kind::trace:
      due_ns_ =
          index_ < trace_->entries.size() ? start_ns_ + trace_->entries[index_].at_ns : kNever;
      return;
  }
}

}  // namespace pail::bench
