#include "protocol/stats.hpp"

#include <algorithm>

namespace pail::protocol {
namespace {

constexpr std::size_t kNameAt = 2;

bool is_stat_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kMaxStatNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace

std::size_t encode(const Stat& stat, Buffer out) noexcept {
  assert(is_stat_name(stat.name));
  const std::size_t size = kNameAt + stat.name.size() + sizeof stat.value;
  assert(out.size() >= size);
  std::byte* const at = out.data();
  wire::store(at, static_cast<std::uint8_t>(stat.kind));
  wire::store(at + 1, static_cast<std::uint8_t>(stat.name.size()));
  std::memcpy(at + kNameAt, stat.name.data(), stat.name.size());
  wire::store(at + kNameAt + stat.name.size(), stat.value);
  return size;
}

std::optional<Stat> take_stat(Bytes& body) noexcept {
  if (body.size() < kNameAt) return std::nullopt;
  const auto name_bytes = std::to_integer<std::size_t>(body[1]);
  const std::size_t size = kNameAt + name_bytes + sizeof(std::uint64_t);
  if (body.size() < size) return std::nullopt;
  Stat stat;
  stat.kind = static_cast<StatKind>(body[0]);
  stat.name = as_text(body.subspan(kNameAt, name_bytes));
  stat.value = wire::load<std::uint64_t>(body.data() + kNameAt + name_bytes);
  if (!is_stat_name(stat.name)) return std::nullopt;
  body = body.subspan(size);
  return stat;
}

}  // namespace pail::protocol
