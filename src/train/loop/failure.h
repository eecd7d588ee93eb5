// What user code throws during a run, with the place in the run added: a model's forward() that
// meets a wrong shape says which batch, of which tensors, in which layer, and not only libtorch's
// sentence.
//
//  - libtorch's and the standard library's exceptions become a TrainingError; the original, with
//    its backtrace, is nested in it (std::rethrow_if_nested).
//  - cairn's own errors keep their type; those of a batch get the place in front.
//  - Anything else, a class of the user's own, passes as it is: whoever throws it also catches it.
#pragma once

#include <string>
#include <utility>

#include "train/loop/loop_context.h"

namespace cairn {

// The user's network: what classifier() puts around it is no news.
const torch::nn::Module& network_of(const torch::nn::Module& module);

// Inside a handler. `layer` is what failed_layer() says.
[[noreturn]] void rethrow_from_batch(const LoopContext& context, const std::string& doing,
                                     bool has_batch, const std::string& layer = "");

// Runs `work`; `doing` is for the message: "forward()", "the data loader".
template <class Work>
decltype(auto) in_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/true);
  }
}

// The same for what the model computes from state.batch: the error names the layer, too.
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

// The same where state.batch is not there yet, or not any more.
template <class Work>
decltype(auto) around_batch(const LoopContext& context, const char* doing, Work&& work) {
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    rethrow_from_batch(context, doing, /*has_batch=*/false);
  }
}

}  // namespace cairn
