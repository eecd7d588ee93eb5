// TrainerOptions::deepspeed_config, as far as this version supports it.
#pragma once

#include <cstdint>

#include "cairn/dist/fsdp_config.h"
#include "cairn/value.h"

namespace cairn {

// Returns the ZeRO stage that a DeepSpeed configuration asks for; DeepSpeed's default is 0. All
// other keys are for DeepSpeed's engine, which does not exist here. Keys that ask for nothing
// ({"fp16": {"enabled": false}}) are accepted. For any other key, throws UnsupportedError, which
// names the key and the option that does the same here. Throws UsageError if `config` is not a
// configuration.
std::int64_t deepspeed_stage(const Value& config);

// The equivalent sharding. In DeepSpeed, stage 1 keeps whole gradients. Here they are sharded as in
// stage 2, which computes the same with less memory.
ParallelismConfig sharding_of_stage(std::int64_t stage);

}  // namespace cairn
