// Layers and grants as bytes: what TAKE_ALL carries behind its header, and what replies carry in
// their bodies.
#include "protocol/codec.hpp"

namespace pail::protocol {
namespace {

tl::unexpected<std::string_view> broken(std::string_view rule) noexcept {
  return tl::unexpected(rule);
}

}  // namespace

tl::expected<std::size_t, std::string_view> read_layers(
    Bytes bytes, std::size_t count, std::span<Layer, kMaxLayers> layers) noexcept {
  assert(count <= kMaxLayers);
  for (Layer& layer : layers.first(count)) {
    if (bytes.size() < kLayerHeaderBytes) return broken("a layer is shorter than 12 bytes");
    const std::size_t key_bytes = wire::load<std::uint16_t>(bytes.data() + 8);
    layer.policy = wire::load<std::uint32_t>(bytes.data());
    layer.cost = wire::load<std::uint32_t>(bytes.data() + 4);
    if (wire::load<std::uint16_t>(bytes.data() + 10) != 0) {
      return broken("bytes 10 and 11 of a layer are zero");
    }
    if (key_bytes < kMinKeyBytes || key_bytes > kMaxKeyBytes) {
      return broken("the key of a layer has 1 to 1024 bytes");
    }
    if (bytes.size() - kLayerHeaderBytes < key_bytes) {
      return broken("the key of a layer goes beyond the frame");
    }
    if (layer.policy == 0) return broken("a layer names a policy");
    if (layer.cost == 0) return broken("the cost of a layer is at least 1");
    layer.key = bytes.subspan(kLayerHeaderBytes, key_bytes);
    bytes = bytes.subspan(kLayerHeaderBytes + key_bytes);
  }
  if (!bytes.empty()) return broken("there are bytes behind the last layer");
  return count;
}

std::size_t encode(std::span<const Layer> layers, Buffer out) noexcept {
  std::size_t at = 0;
  for (const Layer& layer : layers) {
    assert(out.size() - at >= kLayerHeaderBytes + layer.key.size());
    wire::store(out.data() + at, layer.policy);
    wire::store(out.data() + at + 4, layer.cost);
    wire::store(out.data() + at + 8, static_cast<std::uint16_t>(layer.key.size()));
    wire::store(out.data() + at + 10, std::uint16_t{0});
    at += kLayerHeaderBytes;
    if (!layer.key.empty()) std::memcpy(out.data() + at, layer.key.data(), layer.key.size());
    at += layer.key.size();
  }
  return at;
}

std::size_t encode(const Grant& grant, Buffer out) noexcept {
  assert(out.size() >= kGrantBytes);
  wire::store(out.data(), grant.id);
  wire::store(out.data() + 8, grant.ttl_us);
  wire::store(out.data() + 12, std::uint32_t{0});
  return kGrantBytes;
}

std::size_t encode(std::span<const LayerState> states, Buffer out) noexcept {
  assert(out.size() >= states.size() * kLayerStateBytes);
  std::byte* at = out.data();
  for (const LayerState& state : states) {
    wire::store(at, state.remaining);
    wire::store(at + 4, state.limit);
    wire::store(at + 8, state.reset_ns);
    at += kLayerStateBytes;
  }
  return states.size() * kLayerStateBytes;
}

std::optional<Grant> read_grant(Bytes body) noexcept {
  if (body.size() != kGrantBytes || wire::load<std::uint32_t>(body.data() + 12) != 0) return {};
  return Grant{wire::load<std::uint64_t>(body.data()), wire::load<std::uint32_t>(body.data() + 8)};
}

std::optional<std::size_t> read_layer_states(Bytes body,
                                             std::span<LayerState, kMaxLayers> states) noexcept {
  const std::size_t count = body.size() / kLayerStateBytes;
  if (body.size() % kLayerStateBytes != 0 || count > kMaxLayers) return {};
  const std::byte* at = body.data();
  for (LayerState& state : states.first(count)) {
    state = {wire::load<std::uint32_t>(at), wire::load<std::uint32_t>(at + 4),
             wire::load<std::uint64_t>(at + 8)};
    at += kLayerStateBytes;
  }
  return count;
}

}  // namespace pail::protocol
