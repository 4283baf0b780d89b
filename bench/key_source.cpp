// Zipf by the method of Gray et al., "Quickly Generating Billion-Record Synthetic Databases"
// (1994), as YCSB uses it: rank 0 is the hottest key.
#include "bench/key_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace pail::bench {
namespace {

// Sum of 1 / i^exponent for i = 1 to n; the tail beyond two million terms by its integral.
double zeta(std::uint32_t n, double exponent) {
  constexpr std::uint32_t kSummed = 2'000'000;
  double sum = 0;
  for (std::uint32_t i = 1; i <= std::min(n, kSummed); ++i) sum += std::pow(1.0 / i, exponent);
  if (n > kSummed) {
    sum += (std::pow(n, 1 - exponent) - std::pow(kSummed, 1 - exponent)) / (1 - exponent);
  }
  return sum;
}

class Zipf {
 public:
  Zipf(std::uint32_t keys, double exponent)
      : keys_(keys),
        alpha_(1 / (1 - exponent)),
        zeta_two_(1 + std::pow(0.5, exponent)),
        zeta_all_(zeta(keys, exponent)),
        eta_((1 - std::pow(2.0 / keys, 1 - exponent)) / (1 - zeta_two_ / zeta_all_)) {}

  [[nodiscard]] std::uint32_t rank(double unit) const {
    const double scaled = unit * zeta_all_;
    if (scaled < 1 || keys_ == 1) return 0;
    if (scaled < zeta_two_ || keys_ == 2) return 1;
    const double rank = keys_ * std::pow(eta_ * unit - eta_ + 1, alpha_);
    return static_cast<std::uint32_t>(std::clamp(rank, 0.0, static_cast<double>(keys_ - 1)));
  }

 private:
  std::uint32_t keys_;
  double alpha_, zeta_two_, zeta_all_, eta_;
};

}  // namespace

tl::expected<Distribution, std::string> parse_distribution(std::string_view text) {
  using Kind = Distribution::Kind;
  if (text == "uniform") return Distribution{Kind::uniform, 0};
  if (text == "hot") return Distribution{Kind::hot, 0};
  if (text == "sequential") return Distribution{Kind::sequential, 0};
  if (text == "zipf") return Distribution{Kind::zipf, 0.99};
  if (text.starts_with("zipf:")) {
    const std::string_view number = text.substr(5);
    double exponent = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), exponent);
    const bool is_whole = error == std::errc() && end == number.data() + number.size();
    if (is_whole && exponent > 0 && exponent < 1) return Distribution{Kind::zipf, exponent};
    return tl::unexpected(fmt::format(
        "'{}' is no zipf distribution: the exponent is between 0 and 1, as in zipf:0.99", text));
  }
  return tl::unexpected(
      fmt::format("'{}' is no distribution of keys: uniform, zipf:0.99, hot or sequential", text));
}

std::string format_distribution(const Distribution& distribution) {
  switch (distribution.kind) {
    case Distribution::Kind::uniform:
      return "uniform";
    case Distribution::Kind::zipf:
      return fmt::format("zipf:{}", distribution.exponent);
    case Distribution::Kind::hot:
      return "hot";
    case Distribution::Kind::sequential:
      return "sequential";
  }
  return "unknown";
}

KeySource::KeySource(const Distribution& distribution, std::uint32_t keys, std::uint64_t seed)
    : kind_(distribution.kind), keys_(keys), random_(seed) {
  if (kind_ != Distribution::Kind::zipf) return;
  const Zipf zipf(keys, distribution.exponent);
  drawn_.resize(kDrawn);
  for (auto& key : drawn_) key = zipf.rank(random_.unit());
}

std::string key_filler(std::size_t key_size_bytes) {
  constexpr std::string_view kWord = "pail-key";
  std::string filler(key_size_bytes - digits_in(key_size_bytes), ' ');
  for (std::size_t i = 0; i < filler.size(); ++i) filler[i] = kWord[i % kWord.size()];
  return filler;
}

}  // namespace pail::bench
