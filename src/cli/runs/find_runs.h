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

// The runs directly below `place`. If none has a file with the name of a log, and something of a
// run lies in `place` itself, that is the run: its checkpoints may be in a folder below. If there
// are more than a hundred, these are the ones whose logs were written to last. Throws what list()
// throws; a folder below that cannot be listed is no run, unless it is one of `known`.
FoundRuns find_runs(ObjectStore& store, const std::string& place,
                    const std::map<std::string, std::string>& known);

// Checks what the user named. Costs a list, and one of each folder below if nothing of a run is in
// the folder. Throws NotFoundError if the folder of checkpoints does not exist. Throws UsageError
// for a folder of runs: nothing of a run is in it, and folders below it have logs of FileLogger.
void check_places(const RunPlaces& places);

}  // namespace cairn::cli
