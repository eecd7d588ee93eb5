// What one rank has of a training state, as DeepSpeed's files of ZeRO stage 1 and 2 lay it out, and
// back: docs/formats/deepspeed.md.
//
//  1. Every parameter is a group of its own. The slices of a group, rank after rank, are then the
//     rows of one parameter, which is how a sharded model is cut: what a rank keeps goes into its
//     file as it lies, and nobody needs anything of another rank.
//  2. The rank's own state of the optimizer stands beside it, by the parameters' names.
//  3. Buffers are in the model's file, which is the same for all ranks.
//  4. Stage 0 is DeepSpeed's without ZeRO: the model's file has all weights and all of the
//     optimizer's state, and there is no other.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cairn/value.h"

namespace cairn::deepspeed {

// Of which save a file is.
struct RankOfSave {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t stage = 0;    // that the user asked for, 0 to 3
  std::string attempt = {};  // its id: what belongs to two attempts never goes together
};

// What the names of a model's state dict are; all others are parameters.
struct ModelNames {
  std::vector<std::string> buffers = {};
  std::vector<std::pair<std::string, std::string>> shared = {};  // (alias, kept under this name)
};

// What the torch.save files of a rank hold.
struct RankFiles {
  Value composer = {};   // composer_states.pt: everything but "state/model", "state/optimizers"
  Value model = {};      // mp_rank_00_model_states.pt
  Value optimizer = {};  // zero_pp_rank_R_mp_rank_00_optim_states.pt; None of stage 0
};

// `checkpoint`: {"state": {...}, "rng": ...}, in which tensors of "state/model" that are sharded
// say which rows they are (TensorView::part). Views of its tensors. UnsupportedError for
// parameters that are not float32, which DeepSpeed's files cannot hold, and for other parts.
RankFiles split(const Value& checkpoint, const ModelNames& names, const RankOfSave& rank);

// The checkpoint that split() was given; CorruptError when the files contradict each other.
Value join(const RankFiles& files);

// Of a file that split() made; CorruptError when it does not say. The model's says rank 0.
RankOfSave rank_of(const Value& file);
// Whether it says anything: DeepSpeed's own do not.
bool has_rank(const Value& file);

}  // namespace cairn::deepspeed
