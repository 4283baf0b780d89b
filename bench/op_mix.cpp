#include "bench/op_mix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace pail::bench {
namespace {

using protocol::Op;

// "take:90" or "take", which is all of it.
struct Share {
  std::string_view op;
  std::uint32_t percent = 100;
};

std::optional<Share> parse_share(std::string_view text) {
  const std::size_t colon = text.find(':');
  Share share{text.substr(0, colon), 100};
  if (colon == std::string_view::npos) return share;
  const std::string_view number = text.substr(colon + 1);
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, share.percent);
  if (error != std::errc() || end != last || share.percent > 100) return std::nullopt;
  return share;
}

}  // namespace

OpMix::OpMix(const Percents& percents) : percents_(percents) {
  // Each slot goes to the kind that is furthest behind its share.
  std::array<std::int64_t, kKinds.size()> owed{};
  for (Op& op : ops_) {
    for (std::size_t i = 0; i < owed.size(); ++i) owed[i] += percents[i];
    const auto most = std::max_element(owed.begin(), owed.end());
    *most -= kSlots;
    op = kKinds[static_cast<std::size_t>(most - owed.begin())].op;
  }
}

std::uint32_t OpMix::percent_of(Op op) const noexcept {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].op == op) return percents_[i];
  }
  return 0;
}

tl::expected<OpMix, std::string> parse_mix(std::string_view text) {
  const auto wrong = tl::unexpected(
      fmt::format("'{}' is no mix: take, peek, lease, layers, or shares of them that add up to "
                  "100, as in take:90,peek:10",
                  text));
  std::array<std::optional<std::uint32_t>, OpMix::kKinds.size()> percents;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const auto share = parse_share(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (!share) return wrong;
    const auto kind = std::find_if(OpMix::kKinds.begin(), OpMix::kKinds.end(),
                                   [&](const auto& one) { return one.name == share->op; });
    if (kind == OpMix::kKinds.end()) return wrong;
    auto& percent = percents[static_cast<std::size_t>(kind - OpMix::kKinds.begin())];
    if (percent) return wrong;
    percent = share->percent;
  }
  OpMix::Percents all{};
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) sum += all[i] = percents[i].value_or(0);
  if (sum != OpMix::kSlots) return wrong;
  return OpMix(all);
}

std::string format_mix(const OpMix& mix) {
  std::string text;
  for (const auto& [op, name] : OpMix::kKinds) {
    const std::uint32_t percent = mix.percent_of(op);
    if (percent == OpMix::kSlots) return std::string(name);
    if (percent != 0) text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, percent);
  }
  return text;
}

}  // namespace pail::bench
