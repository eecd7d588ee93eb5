// Splits a training state into one rank's files, in DeepSpeed's layout of ZeRO stage 1 and 2, and
// joins them again: docs/formats/deepspeed.md.
//
//  1. Every parameter is a group of its own. So the slices of a group, rank after rank, are the
//     rows of one parameter, which is how a sharded model is cut. A rank writes its rows as they
//     lie, and needs nothing from other ranks.
//  2. The rank's part of the optimizer's state is in the same file as the rows, by the parameters'
//     names.
//  3. Buffers are in the model's file, which is the same for all ranks.
//  4. Stage 0 is DeepSpeed without ZeRO: the model's file has all weights and the whole state of
//     the optimizer. There is no other file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn::deepspeed {

// The save and the rank that a file belongs to.
struct RankOfSave {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t stage = 0;    // the stage that the user asked for, 0 to 3
  std::string attempt = {};  // the id of the attempt; files of two attempts are never combined
};

// Kinds of names in a model's state dict. All names that are not listed are parameters.
struct ModelNames {
  std::vector<std::string> buffers = {};
  std::vector<std::pair<std::string, std::string>> shared = {};  // (alias, kept under this name)
};

// The contents of a rank's torch.save files.
struct RankFiles {
  Value composer = {};   // composer_states.pt: all but "state/model", "state/optimizers"
  Value model = {};      // mp_rank_00_model_states.pt
  Value optimizer = {};  // zero_pp_rank_R_mp_rank_00_optim_states.pt; None in stage 0
};

// Splits `checkpoint`, {"state": {...}, "rng": ...}, into a rank's files. Sharded tensors of
// "state/model" say in TensorView::part which rows they are. The results are views of its tensors.
// Throws UnsupportedError for parameters that are not float32, or not cut into rows, which
// DeepSpeed's files cannot hold; UsageError if there is no model.
RankFiles split(const Value& checkpoint, const ModelNames& names, const RankOfSave& rank);

// Returns the checkpoint that was given to split(). Throws CorruptError if the files contradict
// each other.
Value join(const RankFiles& files);

// Returns the save and the rank that are noted in a file of split(). Throws CorruptError if the
// file does not have them. The model's file has rank 0.
RankOfSave rank_of(const Value& file);
// Returns whether the file has what rank_of() returns. DeepSpeed's own files do not.
bool has_rank(const Value& file);

}  // namespace cairn::deepspeed
