// The fp32 weights of a DeepSpeed ZeRO checkpoint: docs/formats/deepspeed.md.
//
// ZeRO flattens the parameters of a group into one array, cuts that into a slice for each rank, and
// every rank saves its own. Here they are found again:
//
//  1. The ranks must all be there, of one stage, and agree on how many they are.
//  2. Stage 1 and 2 (and bf16's own optimizer): the slices of a group, one after the other, are its
//     parameters in the order of param_shapes, one after the other.
//  3. Stage 3: every parameter was cut for itself; each rank has the same number of elements of it,
//     the last one padded.
//  4. No element may be left over but for the padding.
//  5. Buffers, frozen and shared parameters come from the model's files.
#pragma once

#include <string>
#include <vector>

#include "cairn/value.h"

namespace cairn::deepspeed {

// What the torch.save files of a checkpoint hold, by rank.
struct Ranks {
  std::vector<Value> model;      // *_model_states.pt: one (stage 1 and 2), or one for each rank
  std::vector<Value> optimizer;  // *_optim_states.pt: one for each rank
};

struct Consolidated {
  Value weights;  // an OrderedDict: name to tensor, as DeepSpeed's zero_to_fp32.py orders them
  int stage = 0;
  std::size_t ranks = 0;
};

// Classes of which a checkpoint's files hold instances, that are nothing but data.
const std::vector<std::string>& data_classes();

// Whether these are of a save without ZeRO (stage 0) that cairn made.
bool is_without_zero(const Ranks& ranks);

// Tensors are views of the ranks' own, or lazy. CorruptError, UnsupportedError. `scratch_folder` is
// for what is too large to be put together in memory.
Consolidated consolidate(const Ranks& ranks, const std::string& scratch_folder);

}  // namespace cairn::deepspeed
