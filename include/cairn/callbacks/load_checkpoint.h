// LoadCheckpoint: loads a checkpoint at an event (composer/callbacks/load_checkpoint.py).
#pragma once

#include <string>

#include "cairn/checkpoint/ignore_keys.h"
#include "cairn/export.h"
#include "cairn/train/callback.h"
#include "cairn/train/empty_braces.h"
#include "cairn/train/event.h"

namespace CAIRN_PUBLIC cairn {

//   LoadCheckpoint({.load_path = "s3://bucket/base/latest.pt", .load_weights_only = true})
struct LoadCheckpointCallbackOptions {
  std::string load_path = {};      // a path or URI, with dist variables such as {run_name}
  bool load_weights_only = false;  // false needs the event kBeforeLoad
  // If false, names that only the model or only the file has are logged.
  bool strict_model_weights = true;
  IgnoreKeys ignore_keys = {};
  Event event = Event::kBeforeLoad;  // loads each time that it happens
};

// Loads a checkpoint that the run begins with, beside the Trainer's own load_path: the weights of
// another model, or of a part of it. All ranks read the file.
//
// At kBeforeLoad the Trainer's own load comes afterwards, and wins where both have something: a run
// that resumes has its own weights. At a later event the checkpoint replaces what the run has
// trained, also after a resume. There only weights can be loaded, since the run is under way. The
// states of random generators in the file are not used.
//
// At the event, throws what load_checkpoint() throws.
class LoadCheckpoint final : public Callback {
 public:
  explicit LoadCheckpoint(LoadCheckpointCallbackOptions options);  // UsageError
  explicit LoadCheckpoint(EmptyBraces)  // LoadCheckpoint({.load_path = "base.pt"})
      : LoadCheckpoint(LoadCheckpointCallbackOptions()) {}

  std::string name() const override { return "LoadCheckpoint"; }
  bool needs_losses(const State& /*state*/) const override { return false; }
  void run_event(Event event, State& state, Logger& logger) override;

 private:
  LoadCheckpointCallbackOptions options_;
};

}  // namespace cairn
