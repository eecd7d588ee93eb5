// The inputs and targets of a batch, for algorithms that change them.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "cairn/algorithms/batch_key.h"
#include "cairn/export.h"

#include "train/data/batch_item.h"

namespace CAIRN_PUBLIC cairn {
class State;
}  // namespace cairn

namespace cairn {

// As Python writes it: 1, or 'labels'.
std::string python_repr(const BatchKey& key);
// True or False.
std::string python_bool(bool value);

// Probabilities over the classes, which are dimension 1 of `outputs`: float32 (Composer's
// ensure_targets_one_hot). `target` has class indices or, with the shape of `outputs`,
// probabilities. Rows of negative indices are zeros. `who`: the algorithm, for messages.
at::Tensor one_hot_targets(const std::string& who, const at::Tensor& outputs,
                           const at::Tensor& target);

// The mean loss of state.outputs against another target than the batch's. Throws UnsupportedError
// if the model has several losses.
at::Tensor loss_against(const std::string& who, const State& state, const BatchKey& target_key,
                        const at::Tensor& target);

}  // namespace cairn
