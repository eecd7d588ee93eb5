// How training state is sharded over the ranks (cairn/dist/sharding.h): the options in
// TrainerOptions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "cairn/export.h"
#include "cairn/word.h"

namespace CAIRN_PUBLIC cairn {

enum class ShardingStrategy : std::uint8_t {
  kFullShard,         // everything is sharded; a unit is whole only while it computes
  kShardGradOp,       // a unit stays whole from its forward to the end of its backward
  kHybridShard,       // kFullShard among the ranks of a machine, with a copy on each machine
  kHybridShardZero2,  // kShardGradOp among the ranks of a machine, with a copy on each machine
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

// When backward() fetches the parameters of the previous unit.
enum class BackwardPrefetch : std::uint8_t {
  kPre,   // while a unit computes: faster, one more unit in memory
  kPost,  // while a unit's gradients are sent
  kNone,
};
template <>
struct WordsOf<BackwardPrefetch> {
  static constexpr std::array kAll = {"BACKWARD_PRE", "BACKWARD_POST", "NONE"};
};

// Composer's three words. With precision fp32 all of them mean float32.
enum class MixedPrecision : std::uint8_t { kDefault, kPure, kFull };
template <>
struct WordsOf<MixedPrecision> {
  static constexpr std::array kAll = {"DEFAULT", "PURE", "FULL"};
};

// dtypes by PyTorch's names: "float32" or "fp32", "bfloat16" or "bf16", "float16" or "fp16".
// nullopt: the dtype of the parameters.
struct FSDPMixedPrecision {
  // The dtype that units compute in. The parameters that units keep, and that the optimizer steps,
  // do not change. A unit's inputs are cast to this dtype, and its outputs back. Parameters outside
  // of units compute as they are.
  std::optional<std::string> param_dtype = std::nullopt;
  // The dtype in which gradients are sent and summed. Default: param_dtype.
  std::optional<std::string> reduce_dtype = std::nullopt;
  // Must be nullopt or "float32": buffers stay as they are.
  std::optional<std::string> buffer_dtype = std::nullopt;
};

// Composer's FSDPConfig. docs/from_composer.md says what replaces Composer's fields that are
// missing here. Throws UnsupportedError for a value that cairn does not implement, and UsageError
// for an impossible one.
struct FSDPConfig {
  // "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "_HYBRID_SHARD_ZERO2" or "NO_SHARD".
  Word<ShardingStrategy> sharding_strategy = ShardingStrategy::kFullShard;
  // "full" or "sharded". Any number of ranks loads either.
  Word<StateDictType> state_dict_type = StateDictType::kFull;
  // The name of a sharded checkpoint's folder in save_folder. This name replaces the last part of
  // save_filename.
  std::string sharded_ckpt_prefix_dir = "ep{epoch}-ba{batch}";
  // "DEFAULT", "PURE", "FULL", or dtypes.
  std::variant<Word<MixedPrecision>, FSDPMixedPrecision> mixed_precision = MixedPrecision::kDefault;
  // "BACKWARD_PRE", "BACKWARD_POST" or "NONE".
  Word<BackwardPrefetch> backward_prefetch = BackwardPrefetch::kPost;
  // Whether forward() fetches the next unit's parameters, too, in the order of the previous batch.
  bool forward_prefetch = false;
  // The number of ranks that share one copy of the state, and the number of copies. -1: all
  // remaining ranks. Set data_parallel_replicate_degree for a hybrid strategy. The product of the
  // two is the number of ranks.
  std::int64_t data_parallel_shard_degree = -1;
  std::optional<std::int64_t> data_parallel_replicate_degree = std::nullopt;
  // If false, the whole module is one unit, even if parts are wrapped.
  bool auto_wrap = true;
  // Log what became of each unit.
  bool verbose = false;
  // All ranks begin with rank 0's weights, whether this is set or not.
  bool sync_module_states = false;
  // Whether backward() computes the forward() of each Sharded<> again, instead of keeping its
  // activations: less memory, more work (cairn/dist/activation_checkpoint.h). Also in one process,
  // and with NO_SHARD. Composer decides it for each module, by a function of the model's.
  bool activation_checkpointing = false;
};

// TrainerOptions::parallelism_config.
struct ParallelismConfig {
  std::optional<FSDPConfig> fsdp = std::nullopt;
};

}  // namespace cairn
