// A run that looks as if it had saved thousands of checkpoints, without training that long.
#pragma once

#include <cstdint>
#include <string>

#include "cairn/train/options.h"

namespace cairn::testing {

// Options of one start of the run, with autoresume. The run saves each batch in the folder "run" of
// a store that the caller sets.
TrainerOptions aged_run_options(const std::string& duration);

// The name of the checkpoint of a batch: "ep2-ba10-rank0.pt".
std::string aged_run_name(std::int64_t batch);

// The checkpoint file of a batch. The state in the file says that the run saved each batch up to
// this batch in `saved_in`.
std::string aged_run_file(std::int64_t batch, const std::string& saved_in = "run");

}  // namespace cairn::testing
