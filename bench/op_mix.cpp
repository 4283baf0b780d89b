#include "bench/op_mix.hpp"

#include <fmt/format.h>

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

OpMix OpMix::with_peeks(std::uint32_t percent) {
  OpMix mix;
  mix.peek_percent_ = percent;
  // Spread like the steps of a line (Bresenham): 10 % is every tenth, not the first ten.
  std::uint32_t error = 0;
  for (Op& op : mix.ops_) {
    error += percent;
    op = error >= kSlots ? Op::peek : Op::take;
    if (error >= kSlots) error -= kSlots;
  }
  return mix;
}

tl::expected<OpMix, std::string> parse_mix(std::string_view text) {
  const auto wrong = tl::unexpected(fmt::format(
      "'{}' is no mix: take, peek, or shares of both that add up to 100, as in take:90,peek:10",
      text));
  std::optional<std::uint32_t> takes;
  std::optional<std::uint32_t> peeks;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    const auto share = parse_share(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    if (!share) return wrong;
    auto& percent = share->op == "take" ? takes : peeks;
    if ((share->op != "take" && share->op != "peek") || percent) return wrong;
    percent = share->percent;
  }
  if (takes.value_or(0) + peeks.value_or(0) != 100) return wrong;
  return OpMix::with_peeks(peeks.value_or(0));
}

std::string format_mix(const OpMix& mix) {
  if (mix.is_takes_only()) return "take";
  if (mix.peek_percent() == 100) return "peek";
  return fmt::format("take:{},peek:{}", 100 - mix.peek_percent(), mix.peek_percent());
}

}  // namespace pail::bench
