// How training state is sharded over the ranks (cairn/dist/sharding.h): what is said of it in
// TrainerOptions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "cairn/word.h"

namespace cairn {

enum class ShardingStrategy : std::uint8_t {
  kFullShard,         // all is sharded, a unit is whole while it computes, forward and backward
  kShardGradOp,       // a unit stays whole from its forward to the end of its backward
  kHybridShard,       // kFullShard among the ranks of a machine, repeated on each
  kHybridShardZero2,  // so with kShardGradOp
  kNoShard,           // data parallel
};
template <>
struct WordsOf<ShardingStrategy> {
  static constexpr std::array kAll = {"FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD",
                                      "_HYBRID_SHARD_ZERO2", "NO_SHARD"};
};

enum class StateDictType : std::uint8_t {
  kFull,     // rank 0 writes one file
  kSharded,  // all ranks write a folder together, in the layout of torch.distributed.checkpoint
};
template <>
struct WordsOf<StateDictType> {
  static constexpr std::array kAll = {"full", "sharded"};
};

// When backward() asks for the parameters of the previous unit.
enum class BackwardPrefetch : std::uint8_t {
  kPre,   // while a unit computes: quicker, one unit more in memory
  kPost,  // while a unit's gradients are sent
  kNone,
};
template <>
struct WordsOf<BackwardPrefetch> {
  static constexpr std::array kAll = {"BACKWARD_PRE", "BACKWARD_POST", "NONE"};
};

// Composer's three, which with precision fp32 all mean float32.
enum class MixedPrecision : std::uint8_t { kDefault, kPure, kFull };
template <>
struct WordsOf<MixedPrecision> {
  static constexpr std::array kAll = {"DEFAULT", "PURE", "FULL"};
};

// Names as PyTorch's: "float32" or "fp32", "bfloat16" or "bf16", "float16" or "fp16". nullopt: as
// the parameters are.
struct FSDPMixedPrecision {
  // What units compute in; what they keep, and what the optimizer steps, stays as it is. A unit's
  // inputs are cast to it, its outputs back. Parameters of no unit compute as they are.
  std::optional<std::string> param_dtype = std::nullopt;
  // What gradients are sent and summed in. Default: param_dtype.
  std::optional<std::string> reduce_dtype = std::nullopt;
  // Must be nullopt or "float32": buffers stay as they are.
  std::optional<std::string> buffer_dtype = std::nullopt;
};

// Composer's FSDPConfig. Composer's fields that are not here do not exist in this version, and
// docs/from_composer.md says what holds instead. A value that cannot be followed is an
// UnsupportedError, or a UsageError when nobody could.
struct FSDPConfig {
  // "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2" or "NO_SHARD".
  Word<ShardingStrategy> sharding_strategy = ShardingStrategy::kFullShard;
  // "full" or "sharded". Any number of ranks loads either.
  Word<StateDictType> state_dict_type = StateDictType::kFull;
  // The name of a sharded checkpoint's folder in save_folder. It takes the place of the last part
  // of save_filename.
  std::string sharded_ckpt_prefix_dir = "ep{epoch}-ba{batch}";
  // "DEFAULT", "PURE", "FULL", or dtypes.
  std::variant<Word<MixedPrecision>, FSDPMixedPrecision> mixed_precision = MixedPrecision::kDefault;
  // "BACKWARD_PRE", "BACKWARD_POST" or "NONE".
  Word<BackwardPrefetch> backward_prefetch = BackwardPrefetch::kPost;
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
