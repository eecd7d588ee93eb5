// Which layer of a model an exception of libtorch's came from. Modules in C++ have no hooks, but
// libtorch tells an observer (at::RecordFunction, the profiler's) of each of its operators, with
// the tensors that go in: those that are a layer's parameters or buffers say which layer it is.
//
// An observer costs about a microsecond an operator, and wrong shapes and types appear with the
// first batch that has them. So only batches are watched whose like was not computed before.
#pragma once

#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "cairn/train/batch.h"

namespace cairn {

// "Linear", for a torch::nn::LinearImpl.
std::string layer_class(const torch::nn::Module& layer);

// The shapes and types of the batches that went through the model, some thousand of them.
class KnownBatches {
 public:
  // `doing` is "forward()", or another thing that models do.
  bool contains(std::string_view doing, const Batch& batch) const {
    return kinds_.contains(kind_of(doing, batch));
  }
  void insert(std::string_view doing, const Batch& batch);

 private:
  static std::size_t kind_of(std::string_view doing, const Batch& batch);

  std::set<std::size_t> kinds_;
};

// Watches this thread's operators as long as it lives.
class LayerWatch {
 public:
  LayerWatch();
  ~LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;

  // After an exception. "layers.2 (Linear), in aten::linear"; "after layers.2 (Linear), in
  // aten::add" where no layer's tensors were involved; "" when no operator was at work.
  std::string failed_layer(const torch::nn::Module& network) const;

 private:
  struct Observer;
  std::unique_ptr<Observer> observer_;
};

}  // namespace cairn
