// TAKE_ALL: several limits in one request, and in one fallback.
#include <array>

#include "client/src/parts.hpp"
#include "protocol/codec.hpp"

namespace pail {

Result<LayersDecision> Client::Parts::take_all(std::span<const Layer> layers,
                                               const CallOptions& call) {
  std::array<protocol::Layer, protocol::kMaxLayers> told;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    told[i] = {layers[i].limit.policy_id(), layers[i].cost, protocol::as_body(layers[i].key)};
  }
  std::array<std::byte, protocol::kMaxLayersBytes> room;
  const auto used = std::span<const protocol::Layer>(told).first(layers.size());
  protocol::Request request;
  request.op = protocol::Op::take_all;
  request.cost = static_cast<std::uint32_t>(layers.size());
  request.priority = call.priority;
  request.key = std::span(room).first(protocol::encode(used, room));
  const auto answer = ask(request, call);
  if (!answer) return layers_fallback(answer.error(), layers, call);
  const std::size_t named = answer->reply.layer;
  if (!protocol::is_decision(answer->reply.status)) {
    const Limit* const limit = named < layers.size() ? &layers[named].limit : nullptr;
    return layers_fallback(internal::refusal_to_decide(*answer, address, limit), layers, call);
  }
  std::array<protocol::LayerState, protocol::kMaxLayers> states;
  const auto count = protocol::read_layer_states(protocol::as_body(answer->text), states);
  LayersDecision all;
  all.decision = internal::to_decision(answer->reply);
  if (!count || *count != layers.size() ||
      (named < layers.size()) == (answer->reply.status == protocol::Status::ok)) {
    const Error error{ErrorCode::protocol_error, address + ": layers that do not fit the request",
                      true};
    return layers_fallback(error, layers, call);
  }
  count_decision();
  if (named < layers.size()) all.refusing = named;
  for (const protocol::LayerState& state : std::span(states).first(*count)) {
    all.layers.push_back({state.remaining, state.limit, internal::to_duration(state.reset_ns)});
  }
  return all;
}

Result<LayersDecision> Client::Parts::layers_fallback(Error why, std::span<const Layer> layers,
                                                      CallOptions call) {
  std::array<internal::LocalBuckets::Ask, protocol::kMaxLayers> asks;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    asks[i] = {&layers[i].limit, layers[i].key, layers[i].cost};
  }
  call.partial = false;  // all or none, and each whole
  auto decision =
      or_fallback(tl::unexpected(std::move(why)), Asks(asks).first(layers.size()), call);
  if (!decision) return tl::unexpected(std::move(decision).error());
  LayersDecision all;
  all.decision = *decision;
  return all;
}

}  // namespace pail
