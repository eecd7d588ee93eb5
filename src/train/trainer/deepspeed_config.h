// TrainerOptions::deepspeed_config, as far as this version can follow it.
#pragma once

#include <cstdint>

#include "cairn/dist/fsdp_config.h"
#include "cairn/value.h"

namespace cairn {

// The ZeRO stage that a DeepSpeed configuration asks for; DeepSpeed's default is 0. Every other key
// says what DeepSpeed's engine is to do, which is not there: those that ask for what holds anyway
// ({"fp16": {"enabled": false}}) go through, all others are an UnsupportedError that names them and
// the option that does it here. UsageError for what is no configuration.
std::int64_t deepspeed_stage(const Value& config);

// What does the same here. Stage 1 keeps gradients whole in DeepSpeed; here they are sharded as in
// stage 2, which computes the same with less memory.
ParallelismConfig sharding_of_stage(std::int64_t stage);

}  // namespace cairn
