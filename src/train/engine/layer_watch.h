// Finds the layer of a model in which libtorch threw an exception. Modules in C++ have no hooks.
// But libtorch tells an observer (at::RecordFunction, which its profiler uses) about each operator
// and its input tensors. Inputs that are parameters or buffers of a layer identify the layer.
//
// An observer costs about a microsecond per operator. Wrong shapes and types appear with the first
// batch that has them, so only batches of a new kind are watched.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "cairn/train/batch.h"

namespace cairn {

// "Linear" for a torch::nn::LinearImpl.
std::string layer_class(const torch::nn::Module& layer);

// The shapes and types of batches that went through the model, at most a few thousand kinds.
class KnownBatches {
 public:
  // `doing` is the call of the model, such as "forward()".
  bool contains(std::string_view doing, const Batch& batch) const {
    return kinds_.contains(kind_of(doing, batch));
  }
  void insert(std::string_view doing, const Batch& batch);

 private:
  static std::size_t kind_of(std::string_view doing, const Batch& batch);

  std::set<std::size_t> kinds_;
};

// Watches the operators of this thread while it lives.
class LayerWatch {
 public:
  LayerWatch();
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  // Call it after an exception. Returns "layers.2 (Linear), in aten::linear"; or "after layers.2
  // (Linear), in aten::add" if no layer's tensors were involved; or "" if no operator was running.
  std::string failed_layer(const torch::nn::Module& network) const;

 private:
  struct Observer;
  std::unique_ptr<Observer> observer_;
};

}  // namespace cairn
