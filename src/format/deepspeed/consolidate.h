// The fp32 weights of a DeepSpeed ZeRO checkpoint: docs/formats/deepspeed.md.
//
// ZeRO flattens the parameters of a group into one array and cuts that into a slice for each rank.
// Every rank saves its own slice. The parameters are recovered in these steps:
//
//  1. The files of all ranks must be there, be of one stage, and agree on the number of ranks.
//  2. Stage 1 and 2 (and bf16's own optimizer): the slices of a group, one after another, are its
//     parameters in the order of param_shapes, one after another.
//  3. Stage 3: every parameter was cut by itself. Each rank has the same number of its elements;
//     the last rank's slice is padded.
//  4. No element may be left over, except padding.
//  5. Buffers, frozen and shared parameters come from the model's files.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::deepspeed {

// The contents of a checkpoint's torch.save files, by rank.
struct Ranks {
  std::vector<Value> model;      // *_model_states.pt: one (stage 1 and 2), or one for each rank
  std::vector<Value> optimizer;  // *_optim_states.pt: one for each rank
};

struct Consolidated {
  Value weights;  // an OrderedDict: name to tensor, as DeepSpeed's zero_to_fp32.py orders them
  int stage = 0;
  std::size_t ranks = 0;
};

// Names of classes in a checkpoint's files whose instances are only data.
const std::vector<std::string>& data_classes();

// Returns whether the files are of a save by cairn without ZeRO (stage 0).
bool is_without_zero(const Ranks& ranks);

// Joins the ranks' slices. The tensors are views of the ranks' tensors, or lazy. Tensors that are
// too large to be assembled in memory go to `scratch_folder`. Throws CorruptError,
// UnsupportedError.
Consolidated consolidate(const Ranks& ranks, const std::string& scratch_folder);

}  // namespace cairn::deepspeed
