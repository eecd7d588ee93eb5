// Finds the runs of a place.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "cairn/storage/object_store.h"

#include "cli/runs/run_places.h"

namespace cairn::cli {

struct FoundRuns {
  std::map<std::string, std::string> runs = {};  // the name of each, and its place
  std::size_t not_looked_at = 0;                 // folders that may hold a run
};

// The runs directly below `place`. If none has a log of FileLogger, and something of a run lies in
// `place` itself, that is the run: its checkpoints may be in a folder below. If there are more than
// a hundred, these are the ones whose logs were written to last. Throws what list() throws; a
// folder below that cannot be listed is no run, unless it is one of `known`.
FoundRuns find_runs(ObjectStore& store, const std::string& place,
                    const std::map<std::string, std::string>& known);

// Throws UsageError if the user named a folder of runs in place of a run: nothing of a run is in
// the folder, and folders below it have logs of FileLogger. Costs a list of them if nothing is
// there.
void check_is_run(const RunPlaces& places);

}  // namespace cairn::cli
