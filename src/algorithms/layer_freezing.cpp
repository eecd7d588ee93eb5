#include "cairn/algorithms/layer_freezing.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <set>

#include "cairn/error.h"
#include "cairn/train/logger.h"
#include "cairn/train/state.h"

#include "algorithms/elapsed.h"
#include "algorithms/saved_tensors.h"
#include "core/text/float_text.h"

namespace cairn {
namespace {

using Layers = std::vector<std::shared_ptr<torch::nn::Module>>;

// Appends the modules that have parameters and no submodules, depth first, as they are registered.
// As in Python, a child of two names counts once.
void add_layers(const torch::nn::Module& parent, Layers& layers) {
  std::set<const torch::nn::Module*> seen;
  for (const auto& child : parent.children()) {
    if (child == nullptr || !seen.insert(child.get()).second) continue;
    if (child->children().empty() && !child->parameters().empty()) {
      layers.push_back(child);
    } else {
      add_layers(*child, layers);
    }
  }
}

// The layers that may be frozen.
Layers first_layers(const torch::nn::Module& module) {
  Layers layers;
  add_layers(module, layers);
  if (!layers.empty()) layers.pop_back();
  return layers;
}

// A run may go on for part of an epoch after its end, so `elapsed` may be more than 1.
double freeze_schedule(double elapsed, const LayerFreezingOptions& options) {
  elapsed = std::min(elapsed, 1.0);
  if (elapsed <= options.freeze_start) return 0;
  return options.freeze_level * ((elapsed - options.freeze_start) / (1 - options.freeze_start));
}

void set_frozen(const torch::nn::Module& layer, bool frozen) {
  for (at::Tensor& parameter : layer.parameters()) {
    parameter.set_requires_grad(!frozen);
    if (frozen) parameter.mutable_grad().reset();
  }
}

void check_freezing(const LayerFreezingOptions& options) {
  check_fraction("LayerFreezing: freeze_start", options.freeze_start);
  check_fraction("LayerFreezing: freeze_level", options.freeze_level);
}

}  // namespace

FrozenLayers freeze_layers(torch::nn::Module& module, double current_duration,
                           LayerFreezingOptions options) {
  check_freezing(options);
  const Layers layers = first_layers(module);
  const double percentage = freeze_schedule(current_duration, options);
  const auto depth = static_cast<std::int64_t>(percentage * static_cast<double>(layers.size()));
  for (std::int64_t i = 0; i < depth; ++i)
    set_frozen(*layers[static_cast<std::size_t>(i)], true);
  return {depth, percentage};
}

LayerFreezing::LayerFreezing(LayerFreezingOptions options) : options_(options) {
  check_freezing(options_);
}

std::string LayerFreezing::repr() const {
  return fmt::format("LayerFreezing(freeze_start={},freeze_level={})",
                     python_float_repr(options_.freeze_start),
                     python_float_repr(options_.freeze_level));
}

bool LayerFreezing::match(Event event, const State& /*state*/) const {
  return event == Event::kEpochEnd;
}

void LayerFreezing::apply(Event /*event*/, State& state, Logger& logger) {
  const double elapsed = elapsed_fraction(state, "LayerFreezing");
  const FrozenLayers frozen = freeze_layers(state.model->module(), elapsed, options_);
  layers_frozen_ = std::max(layers_frozen_, frozen.layers);
  logger.log_metrics(Dict{{"layer_freezing/layers_frozen", frozen.layers},
                          {"layer_freezing/percentage_frozen", frozen.percentage}});
}

Value LayerFreezing::state_dict() const {
  return Dict{{"repr", repr()}, {"layers_frozen", layers_frozen_}};
}

// Also thaws layers that this object froze, since a load that fails later loads the old state.
void LayerFreezing::load_state_dict(const Value& saved, const State& live) {
  const Layers layers = first_layers(live.model->module());
  std::int64_t frozen = 0;
  if (saved.find("layers_frozen") != nullptr) {
    std::vector<std::string> misfits;
    frozen = read_count(saved, "layers_frozen", misfits);
    if (frozen > static_cast<std::int64_t>(layers.size())) {
      misfits.push_back(
          fmt::format("\"layers_frozen\" is {}, and the model has {} layers before "
                      "the last one",
                      frozen, layers.size()));
    }
    throw_misfits("LayerFreezing", misfits);
  }
  for (std::int64_t i = frozen; i < layers_frozen_; ++i)
    set_frozen(*layers[static_cast<std::size_t>(i)], false);
  for (std::int64_t i = 0; i < frozen; ++i)
    set_frozen(*layers[static_cast<std::size_t>(i)], true);
  layers_frozen_ = frozen;
}

}  // namespace cairn
