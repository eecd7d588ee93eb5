// Loads the schedulers, algorithms, callbacks and the scaler of a run. The states of these objects
// can only be tried: the present state of each object is saved, then the new state is loaded
// (object_loads.h).
#pragma once

#include <string>
#include <vector>

#include "cairn/train/state.h"
#include "cairn/value.h"

#include "train/state/load/load_findings.h"
#include "train/state/load/object_loads.h"

namespace cairn {

// `saved`: the "state" of a checkpoint.
class RunObjectsLoad {
 public:
  RunObjectsLoad(const Value& saved, State& state, LoadFindings& findings, ObjectLoads& loads)
      : saved_(saved), state_(state), findings_(findings), loads_(loads) {}

  void load_schedulers();
  // `excluded`: LoadCheckpointOptions::exclude_algorithms.
  void load_algorithms(const std::vector<std::string>& excluded);
  void load_callbacks();
  void load_scaler();

 private:
  const Value& saved_;
  State& state_;
  LoadFindings& findings_;
  ObjectLoads& loads_;
};

}  // namespace cairn
