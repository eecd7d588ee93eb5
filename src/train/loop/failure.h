// Adds the place in the run to what user code throws. If a model's forward() meets a wrong shape,
// the error names the batch, its tensors and the layer, besides quoting libtorch.
//
//   - Exceptions of libtorch and the standard library become a TrainingError. The original, with
//     its backtrace, is nested in it (std::rethrow_if_nested).
//   - cairn's own errors keep their type. If the error came while a batch was processed, the place
//     is put in front of its message.
//   - Any other exception, such as a class of the user's own, passes unchanged. The user's code
//     that throws it also catches it.
#pragma once

#include <string>
#include <utility>

#include "train/loop/loop_context.h"

namespace cairn {

// The user's network, without the wrapper that classifier() puts around it.
const torch::nn::Module& network_of(const torch::nn::Module& module);

// Call it inside a handler. `layer` is the result of failed_layer().
[[noreturn]] void rethrow_from_batch(const LoopContext& context, const std::string& doing,
                                     bool has_batch, const std::string& layer = "");

// Runs `work`. `doing` is for the message: "forward()" or "the data loader".
template <class Work>
decltype(auto) in_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/true);
  }
}

// As in_batch(), for computations of the model with state.batch: the error also names the layer.
template <class Work>
auto in_model(LoopContext& context, const char* doing, Work&& work) {
  const Batch& batch = context.state.batch;
  if (context.known_batches.contains(doing, batch)) {
    return in_batch(context, doing, std::forward<Work>(work));
  }
  const LayerWatch watch;
  try {
    auto result = std::forward<Work>(work)();
    context.known_batches.insert(doing, batch);
    return result;
  } catch (...) {
    const std::string layer = watch.failed_layer(network_of(context.state.model->module()));
    rethrow_from_batch(context, doing, /*has_batch=*/true, layer);
  }
}

// As in_batch(), for code that runs when state.batch is not set yet, or no longer.
template <class Work>
decltype(auto) around_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/false);
  }
}

}  // namespace cairn
