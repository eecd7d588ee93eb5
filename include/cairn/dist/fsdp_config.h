// How training state is sharded over the ranks (cairn/dist/sharding.h): what is said of it in
// TrainerOptions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace cairn {

// Names as PyTorch's: "float32" or "fp32", "bfloat16" or "bf16", "float16" or "fp16". Empty: as the
// parameters are.
struct FSDPMixedPrecision {
  // What units compute in; what they keep, and what the optimizer steps, stays as it is. A unit's
  // inputs are cast to it, its outputs back. Parameters of no unit compute as they are.
  std::string param_dtype = "";
  // What gradients are sent and summed in. Default: param_dtype.
  std::string reduce_dtype = "";
  // Must be empty or "float32": buffers stay as they are.
  std::string buffer_dtype = "";
};

// Composer's FSDPConfig. Composer's fields that are not here do not exist in this version, and
// docs/from_composer.md says what holds instead. A value that cannot be followed is an
// UnsupportedError, or a UsageError when nobody could.
struct FSDPConfig {
  // "FULL_SHARD": all is sharded, a unit is whole while it computes, forward and backward.
  // "SHARD_GRAD_OP": a unit stays whole from its forward to the end of its backward.
  // "HYBRID_SHARD": FULL_SHARD among the ranks of a machine, repeated on each.
  // "_HYBRID_SHARD_ZERO2": so with SHARD_GRAD_OP. "NO_SHARD": data parallel.
  std::string sharding_strategy = "FULL_SHARD";
  // "full": rank 0 writes one file. "sharded": all ranks write a folder together, each what it has,
  // in the layout of torch.distributed.checkpoint. Any number of ranks loads either.
  std::string state_dict_type = "full";
  // What such a folder is called, in save_folder; the save_filename's own last part does not count.
  std::string sharded_ckpt_prefix_dir = "ep{epoch}-ba{batch}";
  // "DEFAULT", "PURE" or "FULL", which with precision fp32 all mean float32; or dtypes.
  std::variant<std::string, FSDPMixedPrecision> mixed_precision = "DEFAULT";
  // When backward() asks for the parameters of the unit before: "BACKWARD_PRE", while a unit
  // computes (quicker, one unit more in memory), "BACKWARD_POST", while its gradients are sent,
  // "NONE".
  std::string backward_prefetch = "BACKWARD_POST";
  // Forward, too, in the order of the batch before.
  bool forward_prefetch = false;
  // Of how many ranks each has a part, and how often there is the whole. -1: what is left. Set
  // `replicate` for a hybrid; their product is the number of ranks.
  std::int64_t data_parallel_shard_degree = -1;
  std::optional<std::int64_t> data_parallel_replicate_degree = std::nullopt;
  // False: the module is one unit, whatever is wrapped in it.
  bool auto_wrap = true;
  // Logs what became of each unit.
  bool verbose = false;
  // Whatever it says, all ranks begin with rank 0's weights.
  bool sync_module_states = false;
};

// TrainerOptions::parallelism_config.
struct ParallelismConfig {
  std::optional<FSDPConfig> fsdp = std::nullopt;
};

}  // namespace cairn
