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

// UsageError for a folder or a run's name that is no UTF-8: a checkpoint holds both as text.
void check_is_text(const ObjectStore& store, const std::string& folder,
                   const std::string& run_name);

}  // namespace cairn
