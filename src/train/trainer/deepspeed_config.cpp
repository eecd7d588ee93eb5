#include "train/trainer/deepspeed_config.h"

#include <algorithm>
#include <array>
#include <string>

#include "cairn/error.h"

namespace cairn {
namespace {

constexpr std::int64_t kLastStage = 3;

// A key of DeepSpeed's, and the option that does the same here.
struct Instead {
  const char* key;
  const char* option;
};
constexpr std::array kInstead = {
    Instead{"train_batch_size", "batch_size of the DataLoader"},
    Instead{"train_micro_batch_size_per_gpu", "device_train_microbatch_size"},
    Instead{"gradient_accumulation_steps", "device_train_microbatch_size"},
    Instead{"gradient_clipping", "the algorithm GradientClipping"},
    Instead{"optimizer", "optimizers"},
    Instead{"scheduler", "schedulers"},
    Instead{"fp16", "precision"},
    Instead{"bf16", "precision"},
    Instead{"amp", "precision"},
    Instead{"checkpoint", "save_folder and its options"},
    Instead{"steps_per_print", "console_log_interval"},
    Instead{"tensorboard", "loggers"},
    Instead{"wandb", "loggers"},
};

[[noreturn]] void refuse_key(const std::string& where, const std::string& instead) {
  throw UnsupportedError(
      "deepspeed_config: \"" + where +
      "\" is not supported by this version, which reads zero_optimization.stage" +
      (instead.empty() ? std::string() : ": set " + instead + " instead") + ". Leave the key out");
}

std::string text_of_key(const Value& key) {
  if (!key.is_str()) throw UsageError("deepspeed_config: its keys must be strings");
  return key.as_str();
}

// Whether the value is {"enabled": false}, which asks for nothing.
bool is_disabled(const Value& value) {
  return value.is_dict() && value.as_dict().size() == 1 && value.find("enabled") != nullptr &&
         *value.find("enabled") == Value(false);
}

std::int64_t stage_of(const Value& zero) {
  if (!zero.is_dict()) throw UsageError("deepspeed_config: zero_optimization must be a dict");
  std::int64_t stage = 0;
  for (const auto& [key, value] : zero.as_dict()) {
    const std::string name = text_of_key(key);
    if (name != "stage") refuse_key("zero_optimization." + name, "");
    if (!value.is_int() || value.as_int() < 0 || value.as_int() > kLastStage) {
      throw UsageError("deepspeed_config: zero_optimization.stage must be 0, 1, 2 or 3");
    }
    stage = value.as_int();
  }
  return stage;
}

}  // namespace

std::int64_t deepspeed_stage(const Value& config) {
  if (!config.is_dict()) {
    throw UsageError(
        "deepspeed_config must be a dict, such as Dict{{\"zero_optimization\", Dict{{\"stage\", "
        "3}}}}");
  }
  std::int64_t stage = 0;
  for (const auto& [key, value] : config.as_dict()) {
    const std::string name = text_of_key(key);
    if (name == "zero_optimization") {
      stage = stage_of(value);
    } else if (!is_disabled(value)) {
      const auto* const found =
          std::ranges::find_if(kInstead, [&](const Instead& each) { return name == each.key; });
      refuse_key(name, found == kInstead.end() ? "" : found->option);
    }
  }
  return stage;
}

ParallelismConfig sharding_of_stage(std::int64_t stage) {
  const ShardingStrategy strategy = stage == kLastStage ? ShardingStrategy::kFullShard
                                    : stage > 0         ? ShardingStrategy::kShardGradOp
                                                        : ShardingStrategy::kNoShard;
  return {.fsdp = FSDPConfig{.sharding_strategy = strategy}};
}

}  // namespace cairn
