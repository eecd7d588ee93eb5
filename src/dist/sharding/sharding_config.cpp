// Checks which parts of an FSDPConfig this version supports.
#include <torch/torch.h>

#include <array>
#include <string_view>

#include "cairn/dist/sharding.h"
#include "cairn/error.h"

#include "dist/sharding/unit_dtypes.h"

namespace cairn {
namespace {

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

std::optional<at::ScalarType> find_floating_dtype(const std::optional<std::string>& name) {
  const std::string text = name.value_or("");
  if (is_one_of(text, {"float32", "torch.float32", "fp32"})) return at::kFloat;
  if (is_one_of(text, {"bfloat16", "torch.bfloat16", "bf16", "amp_bf16"})) return at::kBFloat16;
  if (is_one_of(text, {"float16", "torch.float16", "half", "fp16", "amp_fp16"})) return at::kHalf;
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& field, const std::string& instead) {
  throw UnsupportedError("parallelism_config: " + field +
                         " is not supported by this version: " + instead);
}

void check_dtype(const std::string& field, const std::optional<std::string>& text) {
  if (text.value_or("").empty() || find_floating_dtype(text)) return;
  throw UsageError("parallelism_config: mixed_precision." + field + " is '" + *text +
                   "'; give float32, bfloat16 or float16");
}

void check_precision(const FSDPConfig& config) {
  if (const auto* word = std::get_if<Word<MixedPrecision>>(&config.mixed_precision)) {
    if (word->value()) return;
    throw UsageError("parallelism_config: mixed_precision is '" + *word +
                     "'; give DEFAULT, PURE, FULL or an FSDPMixedPrecision");
  }
  const auto& types = std::get<FSDPMixedPrecision>(config.mixed_precision);
  check_dtype("param_dtype", types.param_dtype);
  check_dtype("reduce_dtype", types.reduce_dtype);
  check_dtype("buffer_dtype", types.buffer_dtype);
  const auto buffers = find_floating_dtype(types.buffer_dtype);
  if (buffers && buffers != at::kFloat) {
    refuse("mixed_precision.buffer_dtype = '" + *types.buffer_dtype + "'",
           "buffers stay as they are; leave it out");
  }
}

}  // namespace

void check_fsdp_config(const FSDPConfig& config) {
  const auto& strategy = config.sharding_strategy;
  if (!strategy.value()) {
    throw UsageError("parallelism_config: sharding_strategy is '" + strategy +
                     "'; give FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, _HYBRID_SHARD_ZERO2 or "
                     "NO_SHARD");
  }
  if (!config.state_dict_type.value()) {
    throw UsageError("parallelism_config: state_dict_type is '" + config.state_dict_type +
                     "'; give 'full' or 'sharded'");
  }
  if (!config.backward_prefetch.value()) {
    throw UsageError("parallelism_config: backward_prefetch is '" + config.backward_prefetch +
                     "'; give BACKWARD_PRE, BACKWARD_POST or NONE");
  }
  check_precision(config);
  const std::int64_t shards = config.data_parallel_shard_degree;
  const auto replicas = config.data_parallel_replicate_degree;
  if (shards == 0 || shards < -1 || (replicas && (*replicas == 0 || *replicas < -1))) {
    throw UsageError(
        "parallelism_config: data_parallel_shard_degree and data_parallel_replicate_degree are "
        "positive numbers, or -1 for all remaining ranks");
  }
  if (shards == -1 && replicas == -1) {
    throw UsageError(
        "parallelism_config: only one of data_parallel_shard_degree and "
        "data_parallel_replicate_degree can be -1 (all remaining ranks)");
  }
  if (strategy == ShardingStrategy::kNoShard) {
    if (shards > 1) {
      throw UsageError(
          "parallelism_config: NO_SHARD shards nothing; leave data_parallel_shard_degree out");
    }
    if (std::holds_alternative<FSDPMixedPrecision>(config.mixed_precision)) {
      refuse("mixed_precision of sharding_strategy NO_SHARD", "give FULL_SHARD, or leave it out");
    }
  }
}

}  // namespace cairn

namespace cairn::dist {

UnitDtypes unit_dtypes(const FSDPConfig& config) {
  UnitDtypes types;
  if (const auto* chosen = std::get_if<FSDPMixedPrecision>(&config.mixed_precision)) {
    types.compute = find_floating_dtype(chosen->param_dtype);
    types.reduce = find_floating_dtype(chosen->reduce_dtype);
  }
  return types;
}

}  // namespace cairn::dist
