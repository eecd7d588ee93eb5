// What a CheckpointSaver may be asked for.
#pragma once

#include "cairn/callbacks/checkpoint_saver.h"
#include "cairn/checkpoint/names.h"

namespace cairn {

// With the store and the folder filled in, and empty names left out. UsageError or UnsupportedError
// for what cannot be.
CheckpointSaverOptions checked_options(CheckpointSaverOptions options);

// UsageError for names that cannot be, with the values of `dist`.
void check_names(const CheckpointSaverOptions& options, const FormatVariables& dist);

}  // namespace cairn
