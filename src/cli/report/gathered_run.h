// All that a report shows of a run, read from its log and its folders.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/open/run_options.h"
#include "cli/runs/listed_folder.h"
#include "cli/runs/resume_choice.h"
#include "cli/runs/run_log.h"
#include "cli/runs/run_places.h"
#include "cli/view/console.h"

namespace cairn::cli {

// A folder that holds checkpoints.
struct GatheredFolder {
  std::string place;
  ListedFolder listed;
  std::optional<ResumeExplanation> resume = std::nullopt;
  std::string resume_problem = {};  // why there is no `resume`
};

struct GatheredRun {
  std::string name;  // as the user named the run, without secrets
  std::shared_ptr<const RunLog> log = nullptr;
  std::vector<GatheredFolder> folders = {};
  bool has_folder = true;  // false: a log was named, and no folder of checkpoints
  // From the checkpoint that autoresume would choose.
  RunOptions options = {};
};

// Lists the checkpoints in the folder `place` and in those below. Throws what list_checkpoints()
// throws.
void gather_folders(GatheredRun& run, const std::string& place, const ListingArgs& listing,
                    const Console& console);
// Finds out what autoresume would choose in each folder, and the options of the run.
void explain_folders(GatheredRun& run, Verify verify);

// Reads the log, lists the checkpoints in the folder and in those below, and finds out what
// autoresume would choose in each. Throws NotFoundError if there is neither a log nor a checkpoint;
// and what read_run_log() and list_checkpoints() throw.
GatheredRun gather_run(const RunPlaces& places, const ListingArgs& listing, const Console& console);

}  // namespace cairn::cli
