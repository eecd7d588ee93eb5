// A run that has saved thousands of checkpoints, without having trained for so long.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/train/options.h"

namespace cairn::testing {

// A start of the run, with autoresume: it saves each batch in the folder "run" of a store that the
// caller sets.
TrainerOptions aged_run_options(const std::string& duration);

// The name of the checkpoint of a batch: "ep2-ba10-rank0.pt".
std::string aged_run_name(std::int64_t batch);

// The file of a batch. It says that the run saved each batch up to this one in `saved_in`.
std::string aged_run_file(std::int64_t batch, const std::string& saved_in = "run");

}  // namespace cairn::testing
