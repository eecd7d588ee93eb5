// Brings checkpoints of older Composers to the present form.
#pragma once

#include "cairn/value.h"

namespace cairn {

// `state` is the "state" entry of a checkpoint:
//  - before 0.4.1 the keys of `state` had a leading underscore;
//  - before 0.6.0 a flag said that the model was wrapped for DDP, and the names of its parameters
//    then start with "module.";
//  - algorithms were a dict before they were a list of pairs;
//  - before 0.19.1 a timestamp counted no iterations.
void migrate_state(Value& state);

}  // namespace cairn
